"""Runs the command again and again, each time killed at another of its operations on files, then once to its end.

    python -m tests.data.conversion.killed_conversions DIRECTORY KILLS SEED ARGUMENTS...

`DIRECTORY/whole` is the store of an uninterrupted run, `DIRECTORY/killed-K` that of a run that was killed once and then
called again. Every run is a child, forked before anything has begun, that `SIGKILL`s itself from an audit hook.
"""

import os
import random
import signal
import sys
from pathlib import Path

from wam_jax.data import convert

EVENTS = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "shutil.rmtree", "tempfile.mkstemp", "os.listdir")


def child(arguments: list[str], store: Path, *, kill_at: int | None = None) -> tuple[int, int]:
    """Runs the command in a child; its wait status, and how many operations on files it made (at most 255 * 16)."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        count = 0

        def watch(event: str, details: tuple[object, ...]) -> None:
            nonlocal count
            if event in EVENTS and details and str(store.parent) in str(details[0]):
                count += 1
                if count == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(watch)
        code = convert.main([*arguments[:1], str(store), *arguments[1:]])
        os.write(writer, str(count).encode())
        os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as answer:
        made = answer.read()
    return os.waitpid(pid, 0)[1], int(made or 0)


def main() -> None:
    """See the text of the module; prints at which operations it killed, of how many."""
    directory, kills, seed, arguments = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    status, operations = child(arguments, directory / "whole")
    assert status == 0, status
    moments = sorted(random.Random(seed).sample(range(1, operations + 1), kills))
    for number, moment in enumerate(moments):
        store = directory / f"killed-{number}"
        status, _ = child(arguments, store, kill_at=moment)
        assert os.WTERMSIG(status) == signal.SIGKILL, (moment, status)
        status, _ = child(arguments, store)
        assert status == 0, (moment, status)
    print(moments, "of", operations)


if __name__ == "__main__":
    main()
