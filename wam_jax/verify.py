"""`python -m wam_jax.verify --config FILE`: whether batching changes anything, on your recipe and data.

The first draws of the training stream are run alone (a row of exactly their size, dense attention) and as every mode
batches them. Predictions, first and last frames, losses, gradients and one update are compared; the gates are measured
on the same draws. Exit code 0: all within their gates; 1: something is not; 2: it could not be run.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from wam_jax import cli
from wam_jax.config import load
from wam_jax.errors import InputError

_MODES = "padded,bucket,packed"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    options, overrides = _parser().parse_known_args(argv)
    if options.draws < 1:
        raise InputError("--draws", options.draws, "at least 1")
    config = load(options.config, overrides).config
    from wam_jax.data.mixture import open_data
    from wam_jax.verification.page import as_page
    from wam_jax.verification.report import as_json, as_text
    from wam_jax.verification.run import MODES, Verifier

    modes = options.modes.split(",")
    for mode in modes:
        if mode not in MODES:
            raise InputError("--modes", mode, f"must be of {', '.join(MODES)}")
    precision = options.dtype or config.backbone.compute_dtype
    verifier = Verifier(config, open_data(config.data), draws=options.draws, precision=precision)
    found = verifier.verify(modes, trace=options.trace)
    if not found.passed and not options.trace:
        found = verifier.verify(modes, trace=True)
    print(as_text(found))
    if options.out:
        directory = Path(options.out)
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "verify.json").write_text(json.dumps(as_json(found), indent=1) + "\n")
        (directory / "verify.html").write_text(as_page(found))
        print(f"wrote verify.json and verify.html to {directory}")
    return 0 if found.passed else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m wam_jax.verify",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--config", required=True, metavar="FILE", help="a config file, with --config.GROUP.FIELD=VALUE"
    )
    parser.add_argument("--draws", type=int, default=3, metavar="N", help="draws to compare (default: 3)")
    parser.add_argument("--modes", default=_MODES, metavar="A,B", help=f"batching modes (default: {_MODES})")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), help="the compute dtype (default: the recipe's)")
    parser.add_argument("--trace", action="store_true", help="trace a draw's tensors, also where all is well")
    parser.add_argument("--out", metavar="DIR", help="write verify.json and verify.html there")
    return parser


if __name__ == "__main__":
    cli.run(main)
