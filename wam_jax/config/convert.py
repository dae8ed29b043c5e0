"""Between the `ConfigDict` that a config file returns and the frozen dataclasses that everything else reads.

The conversion happens once, at the edge. It refuses a field that the schema lacks, one that is required and missing,
and one whose value has another type, each by its dotted name.
"""

import typing
from collections.abc import Mapping
from typing import Any

from ml_collections import config_dict

from wam_jax.config import names, values
from wam_jax.config.schema import Config
from wam_jax.errors import InputError


def default_config() -> config_dict.ConfigDict:
    """Every field of the schema with its default, for a config file to fill in.

    A required field holds None until it is set; so does an optional one, as a placeholder of its type. The result
    accepts any name and any value: what is wrong is said by `to_config`, with the full name, and not where it was set.
    """
    return _defaults(Config)


def _defaults(group: type) -> config_dict.ConfigDict:
    result = config_dict.ConfigDict(type_safe=False)
    for name, item in names.declared(group).items():
        result[name] = _defaults(item.hint) if item.is_group else _default_of(item)
    return result


def _default_of(item: names.Declared) -> Any:
    if item.default is not None:
        return item.default
    kind = typing.get_args(item.hint)[0] if typing.get_origin(item.hint) in values.UNIONS else item.hint
    return config_dict.placeholder(kind if isinstance(kind, type) else str)


def to_config(source: config_dict.ConfigDict) -> Config:
    """The frozen configuration that `source` describes.

    Raises:
        InputError: a field is unknown, missing or of a wrong type.
    """
    return _build(Config, source.to_dict(), "")


def _build[T](group: type[T], given: Any, prefix: str) -> T:
    fields = names.declared(group)
    if not isinstance(given, Mapping):
        raise InputError(prefix, given, f"must be a group of fields: {', '.join(fields)}")
    for name in given:
        if name not in fields:
            raise InputError(names.join(prefix, name), given[name], names.unknown_field(names.join(prefix, name)))
    built = {}
    for name, item in fields.items():
        field = names.join(prefix, name)
        if given.get(name) is None and item.required:
            raise InputError(field, None, f"is required and not set; {_wanted(item)}")
        if name in given:
            built[name] = (_build if item.is_group else _leaf)(item.hint, given[name], field)
    return group(**built)


def _leaf(hint: Any, value: Any, field: str) -> Any:
    return values.checked(hint, value, field=field)


def _wanted(item: names.Declared) -> str:
    return f"its fields are {', '.join(names.declared(item.hint))}" if item.is_group else values.describe(item.hint)
