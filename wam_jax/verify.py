"""`python -m wam_jax.verify --config FILE`: whether batching changes anything, on your recipe and data.

The first draws of the training stream are run alone (a row of exactly their size, dense attention) and as every mode
batches them. Predictions, first and last frames, losses, gradients and one update are compared; the gates are measured
on the same draws. `--record` keeps a run, and `--against other-run` compares with one: another day, version or machine.
Exit code 0: all within their gates; 1: something is not; 2: it could not be run.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wam_jax import cli
from wam_jax.config import load
from wam_jax.errors import InputError

if TYPE_CHECKING:
    from wam_jax.verification.run import Verification

_AGAINST = ("independent", "fp64", "other-run")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    options, overrides = _parser().parse_known_args(argv)
    _check(options)
    config = load(options.config, overrides).config
    from wam_jax.data.storage.mixture import open_data
    from wam_jax.verification.recording import load_recording, save_recording
    from wam_jax.verification.report import as_text
    from wam_jax.verification.run import MODES, Verifier
    from wam_jax.verification.subject import default_modes

    modes = options.modes.split(",") if options.modes else default_modes(config)
    for mode in modes:
        if mode not in MODES:
            raise InputError("--modes", mode, f"must be of {', '.join(MODES)}")
    precision = options.dtype or config.backbone.compute_dtype
    store = open_data(config.data)
    verifier = Verifier(config, store, draws=options.draws, precision=precision, ranks=options.ranks)
    other = load_recording(options.other_run, verifier.subject) if options.other_run else None
    runs = verifier.run(modes, skip=options.modes is None)
    found = verifier.compare(runs, trace=options.trace, against=options.against, other=other)
    if not found.passed and not options.trace:
        found = verifier.compare(runs, trace=True, against=options.against, other=other)
    print(as_text(found))
    if options.out:
        _write(found, options.out)
    if options.record:
        done = {mode: run for mode, run in runs.items() if not isinstance(run, InputError)}
        save_recording(options.record, verifier.subject, done, trace=options.trace)
        print(f"recorded to {options.record}")
    return 0 if found.passed else 1


def _write(found: "Verification", directory: Path) -> None:
    from wam_jax.verification.page import as_page
    from wam_jax.verification.report import as_json

    directory.mkdir(parents=True, exist_ok=True)
    (directory / "verify.json").write_text(json.dumps(as_json(found), indent=1, allow_nan=False) + "\n")
    (directory / "verify.html").write_text(as_page(found))
    print(f"wrote verify.json and verify.html to {directory}")


def _check(options: argparse.Namespace) -> None:
    for name in ("draws", "ranks"):
        if getattr(options, name) < 1:
            raise InputError(f"--{name}", getattr(options, name), "at least 1")
    if (options.against == "other-run") != (options.other_run is not None):
        raise InputError("--other-run", options.other_run, "goes with --against other-run, and that needs it")
    if options.record and options.record.exists():
        raise InputError("--record", str(options.record), "exists already; choose another directory")


def _parser() -> cli.Parser:
    parser = cli.Parser(
        prog="python -m wam_jax.verify",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--config", required=True, metavar="FILE", help="a config file, with --config.GROUP.FIELD=VALUE"
    )
    parser.add_argument("--draws", type=int, default=3, metavar="N", help="draws to compare (default: 3)")
    parser.add_argument(
        "--ranks", type=int, default=1, metavar="N", help="ranks of the training run, a row each (default: 1)"
    )
    parser.add_argument(
        "--modes",
        metavar="A,B",
        help="batching modes, all of which must go with the recipe (default: padded, bucket, packed and the recipe's "
        "own, as far as it goes with them)",
    )
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), help="the compute dtype (default: the recipe's)")
    parser.add_argument(
        "--against",
        choices=_AGAINST,
        default=_AGAINST[0],
        help="the reference: each draw alone, alone in float64, or the recording of another run (default: %(default)s)",
    )
    parser.add_argument("--other-run", type=Path, metavar="DIR", help="what --record of the other run wrote")
    parser.add_argument(
        "--record", type=Path, metavar="DIR", help="keep what the draws came to; with --trace their tensors as well"
    )
    parser.add_argument("--trace", action="store_true", help="trace a draw's tensors, also where all is well")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write verify.json and verify.html there")
    return parser


if __name__ == "__main__":
    cli.run(main)
