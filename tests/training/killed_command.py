"""`python -m tests.training.killed_command STEP ARGUMENTS...`: the command, killed with signal 9 as it writes a row.

The row of that update is the last one to be written. Nothing is flushed, finished or released on the way out.
"""

import os
import signal
import sys

from wam_jax import train
from wam_jax.training.metrics import MetricsFile, Row


def main() -> None:
    """Arms the trap and runs the command."""
    step, write = int(sys.argv[1]), MetricsFile.write

    def deadly(self: MetricsFile, row: Row) -> None:
        write(self, row)
        if row["phase"] == "train" and row["step"] == step:
            os.kill(os.getpid(), signal.SIGKILL)

    MetricsFile.write = deadly
    train.main(sys.argv[2:])


if __name__ == "__main__":
    main()
