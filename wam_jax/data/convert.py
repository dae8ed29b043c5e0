"""Converts trajectories of your own into a store.

    python -m wam_jax.data.convert SOURCE STORE --encoder WHICH [...]

SOURCE is one of:
  a LeRobot dataset, v2.x or v3.0        video is encoded by --encoder
  LeRobot-v2 repositories with latents   .pth side-cars of the reference implementation
  an encoded dynamics root               branches from restored states, of the reference implementation
  a folder of .npz or .safetensors       an episode per file, with frames or with latents

--encoder is `stand-in` (fits a linear code of the geometry of a video VAE), `codec:STORE_OR_FILE` (a fitted one), or
MODULE:FUNCTION of your own (wam_jax.data.conversion.encoders has the interface).

The same command goes on after an interruption, and what it writes does not depend on interruptions or --workers. While
it runs it needs room for the store twice. Exit codes: 0 the store is complete (or --dry-run found nothing wrong), 1 no
store was written because some episodes cannot be used (--dry-run tries the first), 2 the input cannot be used at all,
130 interrupted.
"""

from collections.abc import Sequence

from wam_jax import cli
from wam_jax.data.conversion.options import read_options
from wam_jax.data.conversion.report import write_report
from wam_jax.data.conversion.run import convert


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns 1 where episodes stand in the way of a store."""
    options = read_options(arguments, description=__doc__)
    report = convert(options)
    write_report(report, options.report)
    return 1 if report.state == "refused" or (report.state == "planned" and report.skipped) else 0


if __name__ == "__main__":
    cli.run(main)
