"""JSON to frozen dataclasses, checked by name.

Reads exactly the annotations that the manifests of this package use: scalars, `X | None`, `tuple[X, ...]`,
`Mapping[str, X]`, `Any` and nested dataclasses. Keys that the dataclass does not know are ignored, so that a later
minor addition to a file does not lock older readers out.
"""

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any

from wam_jax.errors import InputError


def from_json[T](kind: type[T], raw: object, *, where: str) -> T:
    """Builds the dataclass `kind` from decoded JSON.

    Raises:
        InputError: naming `where` and the key that is missing or of a wrong type.
    """
    if not isinstance(raw, dict):
        raise InputError(where, raw, "a JSON object")
    hints = typing.get_type_hints(kind)
    values = {}
    for item in dataclasses.fields(kind):  # ty: ignore[invalid-argument-type]
        name = f"{where}: {item.name}"
        if item.name in raw:
            values[item.name] = _value(hints[item.name], raw[item.name], name)
        elif item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING:
            raise InputError(name, None, "is missing and required")
    return kind(**values)


def _value(hint: Any, raw: Any, where: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return raw
    if origin is types.UnionType:
        return None if raw is None else _value(arguments[0], raw, where)
    if origin is tuple:
        if not isinstance(raw, list):
            raise InputError(where, raw, "a JSON list")
        return tuple(_value(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(raw))
    if origin is Mapping:
        if not isinstance(raw, dict):
            raise InputError(where, raw, "a JSON object")
        return {key: _value(arguments[1], item, f"{where}.{key}") for key, item in raw.items()}
    if dataclasses.is_dataclass(hint):
        return from_json(typing.cast(type, hint), raw, where=where)
    return _scalar(hint, raw, where)


def _scalar(hint: type, raw: Any, where: str) -> Any:
    if hint is float and isinstance(raw, int) and not isinstance(raw, bool):
        return float(raw)
    if not isinstance(raw, hint) or (hint is int and isinstance(raw, bool)):
        raise InputError(where, raw, f"of type {hint.__name__}")
    return raw
