"""The dotted names of a run's configuration: which exist, what type each has, which one was probably meant.

A *leaf* is a field that holds a value, a *group* one that holds fields; both are read off the schema's dataclasses.
"""

import dataclasses
import difflib
import functools
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from wam_jax.config.schema import Config


@dataclass(frozen=True)
class Declared:
    """One field as the schema declares it.

    Attributes:
        hint: its type.
        default: its default, None where it has none (groups and required fields).
        required: whether a configuration must set it.
    """

    hint: Any
    default: Any
    required: bool

    @property
    def is_group(self) -> bool:
        """Whether the field holds fields of its own."""
        return is_group(self.hint)


def is_group(hint: Any) -> bool:
    """Whether a type, or a value, is one of the schema's groups."""
    return dataclasses.is_dataclass(hint)


def declared(group: Any) -> dict[str, Declared]:
    """Field name to declaration of one group (a schema class or an instance of one), in the schema's order."""
    hints = typing.get_type_hints(group if isinstance(group, type) else type(group))
    missing = dataclasses.MISSING
    return {
        item.name: Declared(
            hint=hints[item.name],
            default=None if item.default is missing else item.default,
            required=item.default is missing and item.default_factory is missing,
        )
        for item in dataclasses.fields(group)
    }


@functools.cache
def schema() -> Mapping[str, Declared]:
    """Dotted name to declaration of every group and leaf of `Config`."""
    return dict(_walk(Config, ""))


def _walk(group: type, prefix: str) -> Iterator[tuple[str, Declared]]:
    for name, item in declared(group).items():
        yield prefix + name, item
        if item.is_group:
            yield from _walk(item.hint, f"{prefix}{name}.")


def join(prefix: str, name: str) -> str:
    """`name` under the group `prefix`, which is empty at the top."""
    return f"{prefix}.{name}" if prefix else name


def unknown_field(name: str) -> str:
    """What to say of a dotted name that the schema lacks: the nearest one that it has."""
    known = schema()
    same_leaf = [other for other in known if other.rsplit(".", 1)[-1] == name.rsplit(".", 1)[-1]]
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.5) or same_leaf[:1]
    if nearest:
        return f"no such field; did you mean {nearest[0]}?"
    return f"no such field; a run has {', '.join(declared(Config))}"


def get(config: Config, name: str) -> Any:
    """The value of the leaf or group with this dotted name."""
    return functools.reduce(getattr, name.split("."), config)


def flatten(config: Any, prefix: str = "") -> dict[str, Any]:
    """Dotted name to value of every leaf of a frozen config."""
    leaves: dict[str, Any] = {}
    for name in declared(config):
        value = getattr(config, name)
        leaves |= flatten(value, f"{prefix}{name}.") if is_group(value) else {prefix + name: value}
    return leaves
