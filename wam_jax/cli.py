"""How a command reads its arguments, and how it ends.

Exit codes: 0 done, 1 it ran and the answer is bad, 2 the input cannot be used, 130 interrupted.
"""

import argparse
import sys
from collections.abc import Callable
from typing import NoReturn

from wam_jax.errors import InputError


class Parser(argparse.ArgumentParser):
    """Says what is wrong with the arguments as every other input error is said."""

    def error(self, message: str) -> NoReturn:
        raise InputError("arguments", message, f"see {self.prog} --help")


def run(main: Callable[[], int | None]) -> None:
    """Runs `main` and exits the process with its code; an `InputError` becomes one line and exit code 2."""
    try:
        code = main() or 0
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = 130
    sys.exit(code)
