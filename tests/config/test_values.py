"""What each type of field takes, from a file and from a command line."""

from typing import Literal

import numpy as np
import pytest

from wam_jax.config.values import checked, parsed
from wam_jax.errors import InputError

CHOICE = Literal["a", "b"]
PAIR = tuple[int, int]
PAIRS = tuple[tuple[str, float], ...]


@pytest.mark.parametrize(
    ("hint", "value", "kept"),
    [
        (bool, True, True),
        (int, 3, 3),
        (float, 3, 3.0),
        (str, "3", "3"),
        (CHOICE, "b", "b"),
        (PAIR, [1, 2], (1, 2)),
        (PAIRS, [["a", 1], ("b", 2.5)], (("a", 1.0), ("b", 2.5))),
        (PAIRS, (), ()),
        (int | None, None, None),
    ],
)
def test_values_of_the_type_are_kept(hint: object, value: object, kept: object) -> None:
    result = checked(hint, value, field="f")
    assert result == kept
    assert type(result) is type(kept)


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (bool, 1),
        (bool, "true"),
        (int, True),
        (int, 1.0),
        (int, "1"),
        (int, None),
        (float, "1.0"),
        (float, True),
        (float, float("nan")),
        (float, float("inf")),
        (str, 1),
        (CHOICE, "c"),
        (CHOICE, 1),
        (PAIR, (1, 2, 3)),
        (PAIR, (1, 2.0)),
        (PAIR, 1),
        (PAIRS, "a"),
        (PAIRS, (("a", 1), ("b",))),
        (int | None, "none"),
        (int, np.zeros(2)),
    ],
)
def test_values_of_another_type_are_refused_by_name(hint: object, value: object) -> None:
    with pytest.raises(InputError, match=r"data\.size = .*must be"):
        checked(hint, value, field="data.size")


@pytest.mark.parametrize(
    ("hint", "text", "value"),
    [
        (bool, "False", False),
        (bool, "1", True),
        (int, "-3", -3),
        (float, "1e-4", 1e-4),
        (float, "2", 2.0),
        (str, "3", "3"),
        (CHOICE, "a", "a"),
        (PAIR, "3,4", (3, 4)),
        (PAIR, "(-1, 4)", (-1, 4)),
        (PAIRS, "[('a', 1)]", (("a", 1.0),)),
        (float | None, "none", None),
        (float | None, "0.5", 0.5),
    ],
)
def test_texts_of_a_command_line(hint: object, text: str, value: object) -> None:
    assert parsed(hint, text, field="f") == value


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        (bool, "maybe"),
        (int, "4.0"),
        (int, "1e3"),
        (int, "none"),
        (float, "fast"),
        (PAIR, "1"),
        (PAIR, "(1,a)"),
        (CHOICE, "c"),
    ],
)
def test_texts_of_another_type_are_refused(hint: object, text: str) -> None:
    with pytest.raises(InputError, match="must be"):
        parsed(hint, text, field="f")
