"""Data that is described and not there: sizes and lengths in a small JSON file, all that shapes of programs depend on.

    {
      "dims": {"channel": 48, "height": 8, "width": 16, "action_dim": 7, "state_dim": 8, "text_dim": 4096},
      "actions_per_frame": 4,
      "text_tokens": 512,
      "fields": ["state"],
      "episodes": [{"count": 1500, "frames": [20, 70]}, {"count": 500, "frames": [50, 127]}]
    }

A described store has an index and a manifest like any other; whatever is read of it is zeros.
"""

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from wam_jax.data.jsonio import from_json
from wam_jax.data.storage.fields import BY_NAME
from wam_jax.data.storage.index import Index, index_table
from wam_jax.data.storage.manifest import SCHEMA, Dims, EncoderRecord, Manifest, PayloadRecord, TextRecord
from wam_jax.data.storage.store import Store
from wam_jax.data.storage.units import Units
from wam_jax.data.storage.validate import check_index
from wam_jax.errors import InputError

_REQUIRED = tuple(name for name, known in BY_NAME.items() if not known.optional)
_NO_FINGERPRINT = "described"


@dataclass(frozen=True)
class Episodes:
    """Episodes that are alike but for their lengths.

    Attributes:
        count: how many.
        frames: latent frames of the shortest and the longest; the others lie evenly between.
        source: `real_demo`, or one of the configuration's `data.routing.counterfactual_sources`.
        task: what they show.
    """

    count: int
    frames: tuple[int, ...]
    source: str = "real_demo"
    task: str = "any"

    def lengths(self) -> list[int]:
        """Latent frames of each."""
        return np.linspace(self.frames[0], self.frames[-1], self.count).round().astype(int).tolist()


@dataclass(frozen=True)
class Description:
    """What the file says.

    Attributes:
        dims: sizes of the axes that do not grow.
        actions_per_frame: action slots of a latent frame.
        episodes: groups of episodes.
        temporal_stride: raw frames from one latent frame to the next.
        text_tokens: rows of every prompt; None for data without text, which gets `backbone.max_text_tokens` zeros.
        fields: optional fields that every episode has, as in the table of `docs/data-format.md`.
    """

    dims: Dims
    actions_per_frame: int
    episodes: tuple[Episodes, ...]
    temporal_stride: int = 4
    text_tokens: int | None = None
    fields: tuple[str, ...] = field(default=())


class DescribedStore(Store):
    """A store of zeros, of the described sizes."""

    def __init__(self, path: Path, manifest: Manifest, index: Index) -> None:
        self.path, self.manifest, self.index = path, manifest, index

    def read(self, episode: int, *, frames: tuple[int, int] | None = None) -> dict[str, np.ndarray]:
        """Zeros in the shapes that a store would give."""
        start, stop = frames or (0, int(self.index.extents["video_latents"][episode]))
        return dict(self._zeros(stop - start))

    def text(self, instruction: str) -> np.ndarray:
        """Zeros in the shape of a prompt's vectors."""
        del instruction
        text = self.manifest.text
        return np.zeros((text.tokens, text.dim) if text else (0, 0), np.float32)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.manifest, self.index)

    def _zeros(self, frames: int) -> Iterator[tuple[str, np.ndarray]]:
        for name, known in BY_NAME.items():
            if (self.index.extents[name] < 0).all():
                continue
            rows = self.manifest.units.extent(known.unit, frames)
            sizes: dict[str, Any] = vars(self.manifest.dims) | {known.unit: rows}
            yield name, np.zeros([sizes[axis] for axis in known.axes], np.float32)


def described_store(path: str) -> DescribedStore:
    """The store that a file describes.

    Raises:
        InputError: the file is no such description, or describes what no store can hold.
    """
    try:
        raw = json.loads(Path(path).read_text())
    except FileNotFoundError:
        raise InputError("--data", path, "no such file; it describes data, as docs/planning.md tells") from None
    except ValueError as error:
        raise InputError("--data", path, f"must be JSON: {error}") from None
    description = from_json(Description, raw, where=path)
    _check(description, raw, path)
    index = Index(index_table([*_rows(description)]))
    manifest = _manifest(description)
    check_index(index, manifest)
    return DescribedStore(Path(path), manifest, index)


def _check(description: Description, raw: dict[str, Any], path: str) -> None:
    groups = zip([Description, *[Episodes] * len(raw["episodes"])], [raw, *raw["episodes"]], strict=True)
    for kind, given in groups:
        known = [item.name for item in dataclasses.fields(kind)]
        if unknown := sorted(given.keys() - set(known)):
            raise InputError(path, unknown[0], f"is no key here; known are {', '.join(known)}")
    if not description.episodes:
        raise InputError(f"{path}: episodes", [], "at least one group")
    for group in description.episodes:
        if group.count < 1 or len(group.frames) != 2 or group.frames[0] > group.frames[1]:
            remedy = "a count of at least 1, and frames [shortest, longest]"
            raise InputError(f"{path}: episodes", dataclasses.asdict(group), remedy)
    units = Units(description.actions_per_frame, description.temporal_stride)
    for name in description.fields:
        if name not in BY_NAME or units.extent(BY_NAME[name].unit, 2) is None:
            known = [name for name, item in BY_NAME.items() if units.extent(item.unit, 2) is not None]
            raise InputError(f"{path}: fields", name, f"must be of {', '.join(known)}")


def _rows(description: Description) -> Iterator[dict[str, Any]]:
    units = Units(description.actions_per_frame, description.temporal_stride)
    names = {*_REQUIRED, *description.fields}
    lengths = [(group, frames) for group in description.episodes for frames in group.lengths()]
    for number, (group, frames) in enumerate(lengths):
        extents = {f"extent_{name}": units.extent(BY_NAME[name].unit, frames) for name in names}
        yield {
            "id": f"episode-{number}",
            "source": group.source,
            "task": group.task,
            "instruction": group.task,
            "fps": 1.0,
            "shard": 0,
            "record": number,
            "num_bytes": 0,
            "sha256": bytes(32),
            **extents,
        }


def _manifest(description: Description) -> Manifest:
    dims, tokens = description.dims, description.text_tokens
    text = None
    if tokens is not None:
        if dims.text_dim is None:
            raise InputError("dims: text_dim", None, "is needed where there are text_tokens")
        text = TextRecord(_NO_FINGERPRINT, dims.text_dim, tokens, _NO_FINGERPRINT)
    return Manifest(
        schema=SCHEMA,
        num_episodes=sum(group.count for group in description.episodes),
        actions_per_frame=description.actions_per_frame,
        dims=dims,
        encoder=EncoderRecord("described", "stand-in", 1, description.temporal_stride, dims.channel, "none"),
        text=text,
        payload=PayloadRecord("safetensors"),
        index_fingerprint=_NO_FINGERPRINT,
    )
