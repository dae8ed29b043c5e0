"""`python -m wam_jax.benchmark`: what each batching mode costs on the same draws, or how packing and planning scale.

Prints tables and writes the same figures as JSON. Exit code 1 where the modes disagree about a draw's loss, or
where one is not finite.
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

_DEFAULT_MODES = "strict,padded,bucket,packed"
LOSS_TOLERANCE = 1e-4
"""Relative; float32 sums of differently shaped programs."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    arguments, overrides = _parser().parse_known_args(argv)
    for option in ("steps", "episodes"):
        if getattr(arguments, option) < 1:
            raise InputError(f"--{option}", getattr(arguments, option), "at least 1")
    if arguments.planner_only:
        return _planner(arguments)
    if arguments.config is None:
        raise InputError("--config", None, "give a config file, or --planner-only")
    return _modes(arguments, overrides)


def _planner(arguments: argparse.Namespace) -> int:
    from wam_jax.benchmarking.packers import packing_report
    from wam_jax.benchmarking.planning import planning_report

    packing = packing_report(episodes=arguments.episodes)
    _print_table(packing)
    print()
    planning = planning_report(episodes=arguments.episodes, steps=arguments.steps)
    _print_table(planning)
    _write(arguments.out, {"episodes": arguments.episodes, "packing": packing, "planning": planning})
    return 0


def _modes(arguments: argparse.Namespace, overrides: list[str]) -> int:
    from wam_jax.benchmarking.modes import compare_counts, measure_modes, mode_config
    from wam_jax.benchmarking.same_draws import whole_pools
    from wam_jax.data.loader import TrainData
    from wam_jax.data.storage.mixture import open_data
    from wam_jax.training.mesh import make_mesh

    config = load(arguments.config, overrides).config
    mesh, store = make_mesh(config.trainer.mesh), open_data(config.data)
    padded = TrainData(mode_config(config, "padded"), store, rows=range(mesh.size))
    steps = whole_pools(padded.planner, pool_size=config.data.batching.bucket_pool_size, steps=arguments.steps)
    results = measure_modes(config, store, mesh, modes=arguments.modes.split(","), steps=steps)
    counts = compare_counts(padded, steps=steps)
    rows = [dataclasses.asdict(result) for result in results]
    _print_table(rows)
    print(
        f"tokens an update: {counts.padded:,.0f} with microbatches padded to their longest, "
        f"{counts.packed:,.0f} packed: {counts.ratio:.2f} of them"
    )
    agree = _agreement({result.mode: result.largest_loss_difference for result in results})
    report = {
        "config": config.name,
        "steps": steps,
        "loss_tolerance": LOSS_TOLERANCE,
        "losses_equal": agree,
        "tokens_per_step": dataclasses.asdict(counts) | {"ratio": counts.ratio},
        "modes": rows,
    }
    _write(arguments.out, report)
    return 0 if agree else 1


def _agreement(differences: Mapping[str, float | None]) -> bool:
    """Whether losses are equal in all modes; says so."""
    unknown = [mode for mode, difference in differences.items() if difference is None]
    agree = all(difference is not None and difference <= LOSS_TOLERANCE for difference in differences.values())
    said = f"losses of the same draws are {'equal' if agree else 'NOT equal'} to {LOSS_TOLERANCE:g} in all modes"
    print(said + (f"; not finite: {', '.join(unknown)}" if unknown else ""))
    return agree


def _print_table(rows: Sequence[Mapping[str, Any]]) -> None:
    names = [name for name, value in rows[0].items() if not isinstance(value, dict)]
    cells = [names, *[[_shown(row[name]) for name in names] for row in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(names))]
    for row in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _write(path: str | None, content: Mapping[str, Any]) -> None:
    if path:
        Path(path).write_text(json.dumps(content, indent=1, allow_nan=False) + "\n")


def _parser() -> cli.Parser:
    parser = cli.Parser(prog="python -m wam_jax.benchmark", description=__doc__, allow_abbrev=False)
    parser.add_argument("--config", metavar="FILE", help="a config file; --config.GROUP.FIELD=VALUE overrides")
    parser.add_argument(
        "--modes",
        default=_DEFAULT_MODES,
        metavar="A,B",
        help=f"which modes, the first is compared to (default: {_DEFAULT_MODES}); 'packed:in_order', "
        "'packed:first_fit' and 'packed:best_fit' fill rows up to data.batching.max_tokens, which 'packed' ignores",
    )
    parser.add_argument(
        "--steps", type=int, default=20, metavar="N", help="updates to time, rounded up to the end of a pool or epoch"
    )
    parser.add_argument("--out", metavar="FILE", help="write the figures as JSON")
    parser.add_argument(
        "--planner-only", action="store_true", help="pack and plan the updates of a synthetic index, without a model"
    )
    parser.add_argument("--episodes", type=int, default=1_000_000, metavar="N", help="episodes of --planner-only")
    return parser


if __name__ == "__main__":
    cli.run(main)
