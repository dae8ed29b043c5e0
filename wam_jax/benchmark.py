"""`python -m wam_jax.benchmark`: what each batching mode costs on the same draws, or how well the packers pack.

Prints a table and writes the same figures as JSON. Exit code 1 where the modes disagree about a draw's loss.
"""

import argparse
import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wam_jax import cli
from wam_jax.config import load
from wam_jax.errors import InputError

MODES = ("strict", "padded", "bucket", "packed")
LOSS_TOLERANCE = 1e-4
"""Relative; float32 sums of differently shaped programs."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    arguments, overrides = _parser().parse_known_args(argv)
    if arguments.planner_only:
        return _planner(arguments)
    if arguments.config is None:
        raise InputError("--config", None, "give a config file, or --planner-only")
    return _modes(arguments, overrides)


def _planner(arguments: argparse.Namespace) -> int:
    from wam_jax.benchmarking.packers import planner_report

    rows = planner_report(episodes=arguments.episodes)
    _print_table(rows)
    _write(arguments.out, {"episodes": arguments.episodes, "packing": rows})
    return 0


def _modes(arguments: argparse.Namespace, overrides: list[str]) -> int:
    from wam_jax.benchmarking.modes import measure_modes, whole_pools
    from wam_jax.data.store import open_store
    from wam_jax.training.mesh import make_mesh

    modes = arguments.modes.split(",")
    if unknown := [mode for mode in modes if mode not in MODES]:
        raise InputError("--modes", unknown[0], f"must be of {', '.join(MODES)}")
    config = load(arguments.config, overrides).config
    steps = whole_pools(config, arguments.steps)
    results = measure_modes(
        config, open_store(config.data.store), make_mesh(config.trainer.mesh), modes=modes, steps=steps
    )
    rows = [dataclasses.asdict(result) for result in results]
    _print_table(rows)
    agree = all(result.largest_loss_difference <= LOSS_TOLERANCE for result in results)
    print(f"losses of the same draws are {'equal' if agree else 'NOT equal'} to {LOSS_TOLERANCE:g} in all modes")
    _write(arguments.out, {"config": config.name, "steps": steps, "losses_equal": agree, "modes": rows})
    return 0 if agree else 1


def _print_table(rows: Sequence[Mapping[str, Any]]) -> None:
    names = list(rows[0])
    cells = [names, *[[_shown(row[name]) for name in names] for row in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(names))]
    for row in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _write(path: str | None, content: Mapping[str, Any]) -> None:
    if path:
        Path(path).write_text(json.dumps(content, indent=1) + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m wam_jax.benchmark", description=__doc__, allow_abbrev=False)
    parser.add_argument("--config", metavar="FILE", help="a config file; --config.GROUP.FIELD=VALUE overrides")
    parser.add_argument("--modes", default=",".join(MODES), metavar="A,B", help="which modes, the first is compared to")
    parser.add_argument("--steps", type=int, default=20, metavar="N", help="updates to time, rounded up to whole pools")
    parser.add_argument("--out", metavar="FILE", help="write the figures as JSON")
    parser.add_argument("--planner-only", action="store_true", help="measure the packers on synthetic lengths")
    parser.add_argument("--episodes", type=int, default=1_000_000, metavar="N", help="episodes of --planner-only")
    return parser


if __name__ == "__main__":
    cli.run(main)
