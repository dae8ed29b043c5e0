"""How a command ends: a line and a code for what is no defect, a traceback for what is one."""

import errno
import os

import pytest

from wam_jax import cli
from wam_jax.errors import InputError


def ends(error: BaseException | None, code: int | None = None) -> int:
    def main() -> int | None:
        if error:
            raise error
        return code

    with pytest.raises(SystemExit) as ended:
        cli.run(main)
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (InputError("--out", "x", "another"), 2, "error: --out = 'x': another\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (cli.RunError("nowhere to write"), 1, "error: nowhere to write\n"),
        *(
            (OSError(number, os.strerror(number), "/r/rows"), 1, f"{os.strerror(number)}: '/r/rows'; make room there\n")
            for number in (errno.ENOSPC, errno.EDQUOT)
        ),
    ],
)
def test_what_is_no_defect_is_one_line(
    capsys: pytest.CaptureFixture[str], error: BaseException, code: int, line: str
) -> None:
    assert ends(error) == code
    said = capsys.readouterr().err
    assert said.endswith(line)
    assert said.count("\n") == 1


@pytest.mark.parametrize("error", [OSError(errno.EIO, "broken"), RuntimeError("defect"), ValueError("defect")])
def test_a_defect_is_not_held_up(error: Exception) -> None:
    with pytest.raises(type(error)):
        cli.run(lambda: (_ for _ in ()).throw(error))


def test_an_answer_is_the_exit_code() -> None:
    assert [ends(None, code) for code in (None, 0, 1)] == [0, 0, 1]


def test_arguments_are_input() -> None:
    parser = cli.Parser(prog="python -m a", allow_abbrev=False)
    with pytest.raises(InputError, match=r"arguments = 'unrecognized arguments: --b': see python -m a --help"):
        parser.parse_args(["--b"])
