"""The list of episodes that a conversion writes: named, given tasks, given splits."""

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from wam_jax.data.conversion.content import Listed, Source
from wam_jax.data.conversion.options import Options
from wam_jax.data.storage.splits import hashed_split, held_out
from wam_jax.errors import InputError


def list_episodes(source: Source, options: Options) -> list[Listed]:
    """All episodes that are wanted, each with a split.

    Listed episodes and tasks are held out first; then the source's own split holds, then a hash of the episode's
    group.

    Raises:
        InputError: an id occurs twice, or what is held out is not there.
    """
    listed = list(source.episodes())[: options.max_episodes]
    repeated = [name for name, count in Counter(item.id for item in listed).items() if count > 1]
    if repeated:
        raise InputError("episode id", repeated[0], "is in the source twice; ids must be unique")
    if options.task_names:
        names = _read_names(options.task_names)
        listed = [dataclasses.replace(item, task=names.get(item.instruction, item.task)) for item in listed]
    return [
        dataclasses.replace(item, split=split) for item, split in zip(listed, _splits(listed, options), strict=True)
    ]


def _splits(listed: Sequence[Listed], options: Options) -> list[str]:
    if options.val_episodes:
        ids = [line.strip() for line in _read(options.val_episodes).splitlines() if line.strip()]
        return held_out(np.array([item.id for item in listed], object), ids, field="--val-episodes").tolist()
    if options.val_tasks:
        tasks = np.array([item.task for item in listed], object)
        return held_out(tasks, options.val_tasks, field="--val-tasks").tolist()
    fraction = options.val_fraction
    return [item.split or hashed_split(item.group or item.id, validation_fraction=fraction) for item in listed]


def _read_names(path: Path) -> Mapping[str, str]:
    try:
        names = json.loads(_read(path))
    except ValueError as error:
        raise InputError("--task-names", str(error), "a JSON object, instruction to task") from None
    if not isinstance(names, dict) or not all(isinstance(name, str) and name for name in names.values()):
        raise InputError("--task-names", str(path), "a JSON object, instruction to task")
    return names


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(str(path), str(error), "a text file that can be read") from None
