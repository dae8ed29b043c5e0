"""`--config.GROUP.FIELD=VALUE` on a command line, laid over the `ConfigDict` of a config file.

The schema says what a text means, so that an override is judged exactly as the same value in a file. (The flags of
ml_collections cannot unset an optional field and report a misspelt name as a traceback without a suggestion.)
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ml_collections import config_dict

from wam_jax.config import names, values
from wam_jax.errors import InputError

PREFIX = "--config."


def parse_overrides(arguments: Sequence[str]) -> dict[str, Any]:
    """Dotted name to value; the last of several wins.

    Args:
        arguments: `--config.NAME=VALUE`, or `--config.NAME` and `VALUE` as two words.
    Raises:
        InputError: another argument, an unknown or incomplete name, or a value of a wrong type.
    """
    known = names.schema()
    parsed = {}
    for name, text in _pairs(arguments):
        if name not in known:
            raise InputError(PREFIX + name, text, names.unknown_field(name))
        if known[name].is_group:
            fields = ", ".join(names.declared(known[name].hint))
            raise InputError(PREFIX + name, text, f"is a group; set one of its fields: {fields}")
        parsed[name] = values.parsed(known[name].hint, text, field=PREFIX + name)
    return parsed


def apply_overrides(config: config_dict.ConfigDict, overrides: Mapping[str, Any]) -> None:
    """Sets each dotted name of `config`; a group that the file replaced by something else is left to `to_config`."""
    for name, value in overrides.items():
        *groups, field = name.split(".")
        group: Any = config
        for part in groups:
            group = group.get(part) if isinstance(group, config_dict.ConfigDict) else None
        if isinstance(group, config_dict.ConfigDict):
            group[field] = value


def _pairs(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    words = iter(arguments)
    for word in words:
        if not word.startswith(PREFIX):
            raise InputError("arguments", word, f"no such option; fields are set as {PREFIX}GROUP.FIELD=VALUE")
        name, equals, text = word.removeprefix(PREFIX).partition("=")
        value = text if equals else next(words, None)
        if value is None:
            raise InputError(word, "", f"needs a value: {word}=VALUE")
        yield name, value
