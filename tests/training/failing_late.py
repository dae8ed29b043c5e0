"""`python -m tests.training.failing_late`: processes of which all but the first are done when that one fails."""

import time

from wam_jax import cli
from wam_jax.errors import InputError
from wam_jax.training.cluster import connected, is_main


def main() -> None:
    """Connects, and fails as the report of a run may."""
    with connected(heartbeat_seconds=100):
        if is_main():
            time.sleep(2)
            raise InputError("report.json", "/full", "cannot be written")


if __name__ == "__main__":
    cli.run(main)
