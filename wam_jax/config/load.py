"""A config file and the overrides of a command line, as one checked, frozen configuration.

A config file is Python with a function `get_config()` that returns an `ml_collections.ConfigDict`, most easily
`default_config()` with the fields that matter set. `FILE:TEXT` calls `get_config(TEXT)`, as ml_collections does.
Whatever goes wrong in it is said in one line with the place in the file.
"""

import runpy
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ml_collections import config_dict

from wam_jax.config import convert, names, overrides
from wam_jax.config.schema import Config
from wam_jax.config.validate import validate
from wam_jax.errors import InputError

_REMEDY = "correct the file; it must define get_config(), which returns a ConfigDict (wam_jax.config.default_config)"


@dataclass(frozen=True)
class LoadedConfig:
    """A configuration and where it came from.

    Attributes:
        config: every field, checked.
        path: the file, as given.
        overrides: dotted name to value of what the command line set.
    """

    config: Config
    path: str
    overrides: dict[str, Any]


def load(path: str, arguments: Sequence[str] = ()) -> LoadedConfig:
    """Reads a config file, lays overrides over it and checks the result.

    Args:
        path: of the file, with `:TEXT` behind it where its `get_config` takes one.
        arguments: the `--config.NAME=VALUE` words of a command line.
    Raises:
        InputError: the file cannot be run, or a field is unknown, missing, mistyped, out of range or unsupported.
    """
    changed = overrides.parse_overrides(arguments)
    source = read_config(path)
    overrides.apply_overrides(source, changed)
    config = convert.to_config(source)
    validate(config)
    return LoadedConfig(config=config, path=path, overrides=changed)


def read_config(path: str | Path) -> config_dict.ConfigDict:
    """What the `get_config` of a file returns, unchecked, for another config file to change.

    Args:
        path: of the file, with `:TEXT` behind it where its `get_config` takes one.
    Raises:
        InputError: the file is not there or cannot be run.
    """
    name, colon, text = str(path).partition(":")
    if not Path(name).is_file():
        raise InputError("--config", str(path), "no such file")
    try:
        get_config = runpy.run_path(name)["get_config"]
        config = get_config(text) if colon else get_config()
    except Exception as error:
        raise InputError(_place(name, error), f"{type(error).__name__}: {error}", _remedy(error)) from error
    if not isinstance(config, config_dict.ConfigDict):
        raise InputError(f"{name}: get_config()", type(config).__name__, "must return an ml_collections ConfigDict")
    return config


def _place(name: str, error: Exception) -> str:
    """The file and, where the error passed through it, the last line of it that was running."""
    if isinstance(error, SyntaxError):
        return f"{name}:{error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == name]
    return f"{name}:{lines[-1]}" if lines else name


def _remedy(error: Exception) -> str:
    """For a name that a ConfigDict lacks, the nearest one; else what a config file is."""
    if isinstance(error, AttributeError) and isinstance(error.obj, config_dict.ConfigDict) and error.name:
        return names.unknown_field(error.name)
    return _REMEDY
