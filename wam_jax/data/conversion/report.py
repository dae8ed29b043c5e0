"""What a conversion did, for people and for programs."""

import dataclasses
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SHOWN = 10


@dataclass(frozen=True)
class Skipped:
    """An episode that is not in the store, and why."""

    id: str
    reason: str


@dataclass(frozen=True)
class Report:
    """The outcome.

    Attributes:
        source, layout, store: what was read, how it was understood, and what was to be written.
        state: `planned` (a dry run), `complete`, or `refused`: episodes were skipped that should not be.
        episodes: that the source lists and were asked for.
        splits: split to number of episodes.
        encoder, text: what made latents and text vectors.
        actions_per_frame: A.
        sizes: of a dry run's first episode.
        latent_frames: in all.
        skipped: episodes that are not in the store.
        notes: what was noticed, and in how many episodes.
        seconds: this command's time.
    """

    source: str
    layout: str
    store: str
    state: str
    episodes: int
    splits: dict[str, int]
    encoder: str
    text: str
    actions_per_frame: int
    sizes: str = ""
    latent_frames: int | None = None
    skipped: tuple[Skipped, ...] = ()
    notes: dict[str, int] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0

    def to_json(self) -> str:
        """One JSON object."""
        return json.dumps(dataclasses.asdict(self), indent=1) + "\n"

    def lines(self) -> list[str]:
        """The same for people."""
        splits = ", ".join(f"{name} {count}" for name, count in sorted(self.splits.items()))
        lines = [
            f"source    {self.source}: {self.layout}",
            f"episodes  {self.episodes} ({splits})",
            f"video     {self.encoder}",
            f"text      {self.text}",
            f"actions   {self.actions_per_frame} slots per latent frame",
        ]
        if self.sizes:
            lines.append(f"first     {self.sizes}")
        if self.latent_frames:
            lines.append(f"written   {self.latent_frames} latent frames; this call took {self.seconds:.1f} s")
        lines += [f"note      {note} ({count} episodes)" for note, count in self.notes.items()]
        lines += [f"skipped   {item.id}: {item.reason}" for item in self.skipped[:_SHOWN]]
        if len(self.skipped) > _SHOWN:
            lines.append(f"skipped   and {len(self.skipped) - _SHOWN} more; --report FILE lists all")
        return [*lines, self._verdict()]

    def _verdict(self) -> str:
        if self.state == "refused":
            count = f"{len(self.skipped)} of {self.episodes} episodes cannot be used"
            mend = "mend them and run the same command again, or leave them out with --skip-bad"
            return f"no store was written: {count}; {mend}"
        if self.skipped and self.state == "planned":
            return "the first episode cannot be used"
        return f"{self.state}: {self.store}"


def counted(notes: list[str]) -> dict[str, int]:
    """Each note and how often it occurs, the most frequent first."""
    return dict(Counter(notes).most_common())


def write_report(report: Report, path: Path | None) -> None:
    """Prints the report, and writes it as JSON where a file is given."""
    print("\n".join(report.lines()))
    if path is not None:
        path.write_text(report.to_json())


def as_provenance(skipped: tuple[Skipped, ...]) -> list[dict[str, Any]]:
    """What the store itself says of episodes that it lacks."""
    return [dataclasses.asdict(item) for item in skipped]
