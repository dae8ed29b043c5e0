"""Shows what a trajectory store holds and whether it is sound.

    python -m wam_jax.data.inspect STORE [STORE ...] [--verify] [--json] [--plot lengths.png]
    python -m wam_jax.data.inspect STORE --episode ID --picture episode.png

Prints episodes per task and split, the histogram of lengths, sizes and missing fields. Files, lengths, text and
fingerprint are always checked. `--verify` reads every episode: it checks checksums and arrays, and looks for what hurts
training: actions out of step with motion, the same episode twice, latents of another encoder, and actions that never
change or are clipped. `--picture` draws one episode. Ends with code 1 if anything is wrong, 2 if there is no store that
this version reads, or if several stores are named that cannot be mixed: latents of two encoders are refused.
"""

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure
from tqdm import tqdm

from wam_jax import cli
from wam_jax.data.inspection.findings import Finding, find
from wam_jax.data.inspection.picture import draw_episode, find_episode
from wam_jax.data.inspection.verify import find_problems, gather_sound
from wam_jax.data.storage.mixture import open_mixture
from wam_jax.data.storage.store import Store, open_store
from wam_jax.data.storage.survey import Survey, lengths_of, splits_of, survey
from wam_jax.errors import InputError

_BAR = 40


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the report; returns 1 if anything is wrong with the store."""
    options = _parser().parse_args(arguments)
    for flag, path in (("--plot", options.plot), ("--picture", options.picture)):
        if path:
            _check_plot(flag, path)
    if bool(options.picture) != bool(options.episode):
        raise InputError("--picture", str(options.picture), "goes with --episode ID, and the other way round")
    one, *more = options.store
    store = open_mixture([(place, 1.0) for place in (one, *more)]) if more else open_store(one, check=False)
    if options.picture:
        draw_episode(store, find_episode(store, options.episode), options.picture)
    found, (problems, findings) = survey(store), _look(store, verify=options.verify)
    problems += [finding.text for finding in findings if finding.problem]
    notes = [finding.text for finding in findings if not finding.problem]
    if options.json:
        seen = {"verified": options.verify, "problems": problems, "notes": notes}
        print(json.dumps(dataclasses.asdict(found) | seen, indent=1))
    else:
        print("\n".join([*tables(found), *_verdict(problems, notes, len(store), verified=options.verify)]))
    if options.plot:
        plot_lengths(store, options.plot)
    return 1 if problems else 0


def _look(store: Store, *, verify: bool) -> tuple[list[str], list[Finding]]:
    problems = list(find_problems(store, payloads=False))
    if not verify:
        return problems, []
    traits, broken = gather_sound(store, tqdm(range(len(store)), desc="verifying", unit="episode"))
    return problems + broken, find(store, traits)


def _parser() -> argparse.ArgumentParser:
    parser = cli.Parser(prog="python -m wam_jax.data.inspect", description=__doc__.split("\n")[0])
    parser.add_argument(
        "store", nargs="+", help="a store directory, local or remote, or embedded:NAME; several are mixed"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument("--plot", type=Path, metavar="PNG", help="draw the lengths into this file")
    parser.add_argument(
        "--verify", action="store_true", help="read every episode: what is damaged, what hurts training"
    )
    parser.add_argument("--episode", metavar="ID", help="an episode to draw")
    parser.add_argument(
        "--picture", type=Path, metavar="PNG", help="draw its frames, actions and states into this file"
    )
    return parser


def tables(found: Survey) -> list[str]:
    """The report as lines of text."""
    manifest = found.manifest
    encoder, text, payload = manifest["encoder"], manifest["text"], manifest["payload"]
    lines = [
        f"store        {found.path}",
        f"schema       {manifest['schema']}, fingerprint {found.fingerprint[:16]}",
        f"video        {encoder['name']} ({encoder['kind']}), stride {encoder['spatial_stride']} x "
        f"{encoder['temporal_stride']}; {encoder['normaliser']}",
        f"text         {text['name']}, {text['tokens']} x {text['dim']}" if text else "text         none",
        f"payload      {payload['format']}, {payload['compression']}, {found.num_bytes / 1e6:.1f} MB of arrays",
        f"actions      {manifest['actions_per_frame']} slots per latent frame",
        "sizes        " + ", ".join(f"{name} {size}" for name, size in manifest["dims"].items()),
    ]
    return [*lines, "", *_episode_table(found), "", *_length_table(found), "", *_missing_table(found)]


def plot_lengths(store: Store, path: Path) -> None:
    """Draws the histogram of latent frames by split into an image file."""
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    frames, splits = lengths_of(store), splits_of(store)
    names = sorted(set(splits))
    chosen = [[length for length, split in zip(frames, splits, strict=True) if split == name] for name in names]
    axes.hist(chosen, bins=min(30, int(frames.max() - frames.min()) + 1), stacked=True, label=names)
    axes.set(xlabel="latent frames", ylabel="episodes", title=f"{store.path.name}: {len(store)} episodes")
    axes.legend()
    figure.savefig(path, dpi=120)


def _check_plot(flag: str, path: Path) -> None:
    if path.suffix.lower() != ".png" or not path.absolute().parent.is_dir():
        raise InputError(flag, str(path), "must be a .png file in a directory that exists")


def _episode_table(found: Survey) -> list[str]:
    splits = sorted({split for counts in found.episodes.values() for split in counts})
    width = max(len("total"), *(len(task) for task in found.episodes))
    rows = [
        f"{task:{width}}" + "".join(f"{counts.get(split, 0):>9}" for split in splits)
        for task, counts in found.episodes.items()
    ]
    totals = (sum(counts.get(split, 0) for counts in found.episodes.values()) for split in splits)
    head = f"{'task':{width}}" + "".join(f"{split:>9}" for split in splits)
    return [head, *rows, f"{'total':{width}}" + "".join(f"{total:>9}" for total in totals)]


def _length_table(found: Survey) -> list[str]:
    most = max(count for _, _, count in found.histogram)
    head = "latent frames  " + ", ".join(f"{name} {value:g}" for name, value in found.lengths.items())
    rows = [
        f"{low:>5} -{high:>5}  {count:>7}  {'#' * -(-_BAR * count // most)}".rstrip()
        for low, high, count in found.histogram
    ]
    return [head, *rows]


def _missing_table(found: Survey) -> list[str]:
    return ["missing in episodes", *(f"  {name:28}{count:>7}" for name, count in found.missing.items())]


def _verdict(problems: list[str], notes: list[str], episodes: int, *, verified: bool) -> list[str]:
    lines = ["", *(f"note    {note}" for note in notes)] if notes else []
    if problems:
        return [*lines, "", *(f"PROBLEM {problem}" for problem in problems)]
    what = f"{episodes} of {episodes} checksums verified" if verified else "payloads not read; --verify reads them"
    return [*lines, "", f"sound: {what}"]


if __name__ == "__main__":
    cli.run(main)
