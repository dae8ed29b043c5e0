"""`python -m tests.training.failing_command PROCESS HOW UPDATE ARGUMENTS...`: the command, in which something happens.

In process PROCESS, when the numbers of the UPDATE-th update of this start are there: `kill` ends it with signal 9,
`term` asks it to stop, `raise` is a defect. With UPDATE 0 it is a store that only this process cannot read.
"""

import itertools
import os
import signal
import sys
from typing import Any

from wam_jax import cli, train
from wam_jax.errors import InputError
from wam_jax.training.cluster import ID
from wam_jax.training.interrupt import StopRequest


def main() -> int:
    """Arms the trap and runs the command."""
    process, how, update, *arguments = sys.argv[1:]
    if os.environ[ID] == process:
        if update == "0":
            _spoil_the_store()
        else:
            _spoil_an_update(how, int(update))
    return train.main(arguments)


def _spoil_the_store() -> None:
    from wam_jax.training import run as runner

    run: Any = runner

    def unreadable(*_: Any, **__: Any) -> Any:
        raise InputError("data.store", "shard-3", "cannot be read from this host")

    run.open_data = unreadable


def _spoil_an_update(how: str, update: int) -> None:
    hear, count = StopRequest.hear, itertools.count(1)

    def heard(self: StopRequest, number: int) -> None:
        hear(self, number)
        if next(count) == update:
            if how == "raise":
                raise RuntimeError("the disk is on fire")
            os.kill(os.getpid(), signal.SIGKILL if how == "kill" else signal.SIGTERM)

    StopRequest.hear = heard


if __name__ == "__main__":
    cli.run(main)
