"""What batch-invariant mode costs in an update: `python benchmarks/batch_invariance.py`.

A recipe as it is, with samples aligned to tiles, and in batch-invariant mode with tiles of several sizes: compiled in
one process, then one update of each in turn on the same draws. Medians, the first round left out.
"""

import argparse
import dataclasses
import datetime
import itertools
import json
import os
import statistics
from pathlib import Path

import jax

from wam_jax.benchmarking.subject import Subject
from wam_jax.config import Config, load
from wam_jax.config.modes import in_mode
from wam_jax.data.storage.mixture import open_data
from wam_jax.training.mesh import make_mesh


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description="the cost of batch-invariant mode", allow_abbrev=False)
    parser.add_argument("--config", default="configs/quickstart.py", help="a config file, with overrides")
    parser.add_argument("--tiles", default="64,128,256", help="sizes of tiles (default: 64,128,256)")
    parser.add_argument("--steps", type=int, default=20, help="updates of each, after the first (default: 20)")
    parser.add_argument("--out", metavar="FILE", help="write the figures as JSON")
    options, overrides = parser.parse_known_args()
    config = load(options.config, overrides).config
    rows = measure(variants(config, [int(tile) for tile in options.tiles.split(",")]), steps=options.steps)
    print(f"{datetime.date.today()}, jax {jax.__version__}, {jax.devices()[0].device_kind}, {os.cpu_count()} cores")
    print(f"{'':24}{'median, s':>11}{'best, s':>9}{'ratio':>7}{'slots':>9}{'compiling, s':>14}")
    for row in rows:
        print(
            f"{row['name']:24}{row['median']:11.3f}{row['best']:9.3f}{row['ratio']:7.2f}{row['slots']:9.0f}"
            f"{row['compile_seconds']:14.1f}"
        )
    if options.out:
        Path(options.out).write_text(json.dumps(rows, indent=1) + "\n")


def variants(config: Config, tiles: list[int]) -> dict[str, Config]:
    """The recipe by itself, aligned, and invariant."""
    made = {"as it is": config}
    for tile, invariant in itertools.product(tiles, (False, True)):
        aligned = in_mode(config, dataclasses.replace(config.data.batching, tile_alignment=tile))
        numerics = dataclasses.replace(aligned.numerics, batch_invariant=invariant)
        made[f"{'invariant' if invariant else 'aligned'}, {tile}"] = dataclasses.replace(aligned, numerics=numerics)
    return made


def measure(configs: dict[str, Config], *, steps: int) -> list[dict[str, float | str]]:
    """Updates of all, in turn; the first is what the others are compared with."""
    subjects, slots = {}, {}
    for name, config in configs.items():
        store, mesh = open_data(config.data), make_mesh(config.trainer.mesh)
        subjects[name] = Subject(config, store, mesh, steps=steps + 1)
    seconds: dict[str, list[float]] = {name: [] for name in subjects}
    streams = {name: subject.data.steps() for name, subject in subjects.items()}
    for turn in range(steps + 1):
        for name, subject in subjects.items():
            step = next(streams[name])
            taken = subject.update(step)
            if turn:
                seconds[name].append(taken)
                slots[name] = slots.get(name, 0) + step.counts.slots / steps
    base = statistics.median(seconds[next(iter(seconds))])
    return [
        {
            "name": name,
            "median": statistics.median(seconds[name]),
            "best": min(seconds[name]),
            "ratio": statistics.median(seconds[name]) / base,
            "slots": slots[name],
            "compile_seconds": subjects[name].compile_seconds,
        }
        for name in subjects
    ]


if __name__ == "__main__":
    main()
