"""`python -m wam_jax.plan`: compiles a run for devices that need not be there, and says what it takes of each.

Prints a page and writes the same as JSON. Exit code 0: it fits; 1: it does not, with the single changes that would make
it fit; 2: it cannot be planned, in one line.
"""

import argparse
import dataclasses
import json
import math
import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from absl import logging

from wam_jax import cli
from wam_jax.config import Config, load
from wam_jax.errors import InputError

if TYPE_CHECKING:
    from wam_jax.data.storage.store import Store
    from wam_jax.planning.planner import Progress

_USABLE = 0.92
"""As the launch scripts have it."""
_FRACTION_VARIABLE = "XLA_PYTHON_CLIENT_MEM_FRACTION"

_EPILOG = """\
For GPUs the compiler's wheels are needed, no GPU, driver or CUDA installation (extra `aot`; docs/planning.md):
  UV_PROJECT_ENVIRONMENT=.venv-aot python3 -m uv sync --extra aot
  .venv-aot/bin/python -m wam_jax.plan --config configs/libero_5b.py --data configs/libero.json \\
      --target h100 --devices 8
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    logging.set_verbosity(logging.ERROR)
    arguments, overrides = _parser().parse_known_args(argv)
    config = load(arguments.config, overrides).config
    if arguments.out and (Path(arguments.out).is_dir() or not Path(arguments.out).absolute().parent.is_dir()):
        raise InputError("--out", arguments.out, "a file in a directory that exists")
    fraction = _fraction(arguments.memory_fraction)
    from wam_jax.planning.changes import changes
    from wam_jax.planning.planner import make_plan
    from wam_jax.planning.report import page
    from wam_jax.planning.topology import Topology, prepare_for

    topology = Topology(arguments.target, arguments.devices, arguments.hosts)
    prepare_for(topology)
    store, usable = _store(config, arguments.data), int(fraction * topology.memory)
    rungs = "all" if arguments.all_rungs else "ends"
    with _progress() as progress:
        plan = make_plan(config, store, topology, rungs=rungs, usable=usable, progress=progress)
        found = [] if plan.fits else changes(config, store, plan, progress)
    print(page(plan, found))
    if arguments.out:
        content = plan.to_json() | {"changes": [dataclasses.asdict(change) for change in found]}
        Path(arguments.out).write_text(json.dumps(content, indent=1) + "\n")
    return 0 if plan.fits else 1


def _store(config: Config, description: str | None) -> "Store":
    from wam_jax.data.storage.mixture import open_data
    from wam_jax.planning.described import described_store

    if description:
        return described_store(description)
    try:
        return open_data(config.data)
    except InputError as error:
        raise InputError(
            error.field, error.value, f"{error.remedy}; or describe the data in a file, --data FILE"
        ) from None


def _fraction(given: float | None) -> float:
    name, value = "--memory-fraction", given
    if value is None:
        name, value = _FRACTION_VARIABLE, os.environ.get(_FRACTION_VARIABLE, _USABLE)
    try:
        fraction = float(value)
    except ValueError:
        fraction = math.nan
    if not 0 < fraction <= 1:
        raise InputError(name, value, "must be a number above 0 and at most 1")
    return fraction


@contextmanager
def _progress() -> "Generator[Progress]":
    """A line on standard error that names the stage and counts the time."""
    from tqdm import tqdm

    with tqdm(file=sys.stderr, leave=False, unit="stage", bar_format="{desc} [{elapsed}]") as bar:

        def tell(stage: str) -> None:
            bar.set_description_str(stage)
            bar.update()

        yield tell


def _parser() -> argparse.ArgumentParser:
    parser = cli.Parser(
        prog="python -m wam_jax.plan",
        description="Say what a run takes of devices that need not be there, and whether it fits.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--config", required=True, metavar="FILE", help="a config file; --config.GROUP.FIELD=VALUE")
    parser.add_argument("--target", required=True, metavar="KIND", help="h100, h200, a100, or cpu (this machine)")
    parser.add_argument("--devices", required=True, type=int, metavar="N", help="of all hosts together")
    parser.add_argument("--hosts", type=int, default=1, metavar="M", help="processes of N/M devices each (default 1)")
    parser.add_argument("--data", metavar="FILE", help="a description of the data, in place of the config's store")
    parser.add_argument("--all-rungs", action="store_true", help="compile every rung, not only the two ends")
    parser.add_argument(
        "--memory-fraction",
        type=float,
        metavar="X",
        help=f"of a device's memory that may be used (default: ${_FRACTION_VARIABLE}, else {_USABLE})",
    )
    parser.add_argument("--out", metavar="FILE", help="write the plan as JSON")
    return parser


if __name__ == "__main__":
    cli.run(main)
