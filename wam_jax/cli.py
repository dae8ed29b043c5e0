"""How a command reads its arguments, and how it ends.

Exit codes: 0 done, 1 it ran and the answer is bad, 2 the input cannot be used, 130 interrupted. A command may have more
(`wam_jax.train` has 3: an update is not finite).
"""

import argparse
import errno
import sys
from collections.abc import Callable
from typing import NoReturn

from wam_jax.errors import InputError


class Parser(argparse.ArgumentParser):
    """Says what is wrong with the arguments as every other input error is said."""

    def error(self, message: str) -> NoReturn:
        raise InputError("arguments", message, f"see {self.prog} --help")


class RunError(Exception):
    """What ends a command that ran, with one line and exit code 1: no wrong input, and no defect of ours."""


_FULL = (errno.ENOSPC, errno.EDQUOT)


def outcome(error: BaseException) -> tuple[str, int] | None:
    """The line and the exit code that an exception ends a command with; None for a defect, which has a traceback."""
    match error:
        case InputError():
            return f"error: {error}", 2
        case KeyboardInterrupt():
            return "interrupted", 130
        case RunError():
            return f"error: {error}", 1
        case OSError(errno=number) if number in _FULL:
            return f"error: {error}; make room there", 1
    return None


def run(main: Callable[[], int | None]) -> None:
    """Runs `main` and exits the process with its code, or as `outcome` says of what it raised."""
    try:
        code = main() or 0
    except BaseException as error:
        ended = outcome(error)
        if ended is None:
            raise
        line, code = ended
        print(line, file=sys.stderr)
    sys.exit(code)
