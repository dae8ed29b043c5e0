"""`metrics.jsonl`: one flat JSON object a line, in the order in which they happened.

Rows of phase "train" hold the update that ended at `step`, rows of phase "val" a validation after `step` updates. A row
is written as a whole; a number that is not finite becomes null.
"""

import json
import math
import os
from pathlib import Path
from typing import Any

from wam_jax.errors import InputError
from wam_jax.training.record import replace_text

type Row = dict[str, Any]


class MetricsFile:
    """Appends rows to a file, which is kept as it is where it exists."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a")

    def write(self, row: Row) -> None:
        """Appends one row and hands it to the operating system."""
        self._file.write(json.dumps({name: _plain(value) for name, value in row.items()}) + "\n")
        self._file.flush()

    def sync(self) -> None:
        """Returns when all rows are on disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def read_rows(path: Path) -> list[Row]:
    """All rows of a file; none where it does not exist. A last line that was cut short is left out.

    Raises:
        InputError: another line is no JSON object.
    """
    if not path.exists():
        return []
    *lines, _unfinished = path.read_text(errors="replace").split("\n")
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
            rows.append({"step": row["step"], **row})
        except (ValueError, TypeError, KeyError):
            raise InputError(f"{path}:{number}", line, "is no metrics row; repair or remove the file") from None
    return rows


def truncate_rows(path: Path, *, step: int) -> list[Row]:
    """Drops the rows beyond `step`, replacing the file in one move; returns those that stay, in order."""
    rows = read_rows(path)
    kept = [row for row in rows if row["step"] <= step]
    if path.exists():
        replace_text(path, "".join(json.dumps(row) + "\n" for row in kept))
    return kept


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
