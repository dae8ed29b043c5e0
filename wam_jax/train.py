"""`python -m wam_jax.train --config FILE`: trains one run from its configuration to its report.

Arguments, configuration and run directory are checked here, before the seconds that importing the numerical stack
takes; `wam_jax.training.run` does the rest. What cannot work is said in one line, with exit code 2. Other exit codes:
0 the run is complete, or SIGTERM stopped it and it is saved; 1 it failed; 3 an update was not finite; 130 Ctrl-C (saved
as well). Where one process of several fails, all end with its code.

Started once for every process of a run on several hosts or GPUs (`wam_jax.training.cluster`), it is one run.
"""

import argparse
from collections.abc import Sequence

from absl import logging

from wam_jax import cli
from wam_jax.config import load
from wam_jax.training.start import plan_start

_EPILOG = """\
A config file defines get_config(), which returns an ml_collections ConfigDict; FILE:TEXT calls get_config("TEXT").
--config.GROUP.FIELD=VALUE sets any field, and "none" unsets an optional one.

The run directory gets run.json, metrics.jsonl, tensorboard/, checkpoints/STEP/, and in the end report.json and
report.png. SIGTERM and Ctrl-C finish the update, save and end; the same command with --resume-from goes on from there.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    logging.set_verbosity(logging.ERROR)
    arguments, overrides = _parser().parse_known_args(argv)
    loaded = load(arguments.config, overrides)
    start = plan_start(
        loaded.config.name,
        workdir=arguments.workdir,
        resume_from=arguments.resume_from,
        initialize_from=arguments.initialize_weights_from,
        new_data_phase=arguments.new_data_phase,
    )
    from wam_jax.data.storage.mixture import open_data
    from wam_jax.training.cluster import connected

    with connected(heartbeat_seconds=loaded.config.trainer.heartbeat_seconds):
        from wam_jax.training.run import train

        store = open_data(loaded.config.data)
        return train(loaded, start, store, world_size=arguments.expected_world_size)


def _parser() -> argparse.ArgumentParser:
    parser = cli.Parser(
        prog="python -m wam_jax.train",
        description="Train a world-action model.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--config", required=True, metavar="FILE", help="a config file, such as configs/quickstart.py")
    parser.add_argument("--workdir", metavar="DIR", help="run directory (default: runs/NAME, or the resumed run's)")
    parser.add_argument("--resume-from", metavar="RUN_OR_STEP", help="continue a run, or one of its checkpoints/STEP")
    parser.add_argument(
        "--initialize-weights-from", metavar="RUN_OR_STEP", help="start a new run with a checkpoint's parameters"
    )
    parser.add_argument(
        "--new-data-phase",
        action="store_true",
        help="with --resume-from: keep parameters, optimizer and step, and go on with draws of its own (other data)",
    )
    parser.add_argument("--expected-world-size", type=int, metavar="N", help="refuse to start on other than N devices")
    return parser


if __name__ == "__main__":
    cli.run(main)
