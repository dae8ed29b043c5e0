"""One value of a configuration against the type its field declares, and the text of a command line as such a value.

Types are those the schema uses: `bool`, `int`, `float`, `str`, `Literal`, tuples of fixed length or of equal items, and
`X | None`.
Nothing is converted but an integer given for a float: `8` is no text, `1.0` no integer and `True` no number.
"""

import ast
import math
import types
import typing
from typing import Any

from wam_jax.errors import InputError

_WORDS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_NOTHING = ("none", "null")
UNIONS = (types.UnionType, typing.Union)
"""Origins of `X | None`, the second where X is a `Literal`."""


def describe(hint: Any) -> str:
    """What a field of this type accepts, in words."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in UNIONS:
        return f"{describe(arguments[0])}, or None"
    if origin is typing.Literal:
        return "one of " + ", ".join(repr(choice) for choice in arguments)
    if origin is tuple and arguments[-1] is Ellipsis:
        return f"a tuple of items, each {describe(arguments[0])}"
    if origin is tuple:
        return f"a tuple of {len(arguments)}: ({', '.join(describe(item) for item in arguments)})"
    return {bool: "true or false", int: "an integer", float: "a finite number", str: "a text"}[hint]


def checked(hint: Any, value: Any, *, field: str) -> Any:
    """`value` if the type allows it.

    Args:
        hint: the declared type.
        value: what was given.
        field: its dotted name, for the message.
    Returns:
        The value; lists as tuples, integers of float fields as floats.
    Raises:
        InputError: the type does not allow it.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in UNIONS:
        if value is None:
            return None
        return checked(arguments[0], value, field=field)
    if origin is tuple and isinstance(value, tuple | list):
        kinds = arguments[:1] * len(value) if arguments[-1] is Ellipsis else arguments
        if len(value) == len(kinds):
            return tuple(checked(kind, item, field=field) for kind, item in zip(kinds, value, strict=True))
    if origin is typing.Literal and isinstance(value, str) and value in arguments:
        return value
    if origin is None and _is_a(hint, value):
        return hint(value)
    raise InputError(field, value, f"must be {describe(hint)}")


def _is_a(kind: type, value: Any) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def parsed(hint: Any, text: str, *, field: str) -> Any:
    """The value that `text` on a command line stands for: `--config.FIELD=TEXT`.

    Optional fields take `none`, tuples `3,4` or `(3, 4)`, truth values `true`/`false`/`1`/`0`.

    Raises:
        InputError: the text stands for no value of the type.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in UNIONS:
        return None if text.lower() in _NOTHING else parsed(arguments[0], text, field=field)
    if hint is str or origin is typing.Literal:
        return checked(hint, text, field=field)
    try:
        value = _WORDS[text.lower()] if hint is bool else ast.literal_eval(text)
    except (KeyError, ValueError, SyntaxError):
        raise InputError(field, text, f"must be {describe(hint)}") from None
    return checked(hint, value, field=field)
