"""Names, tasks and splits of the listed episodes."""

import dataclasses
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from wam_jax.data.conversion.content import Listed
from wam_jax.data.conversion.naming import list_episodes
from wam_jax.data.storage.splits import hashed_split
from wam_jax.errors import InputError

ITEM = Listed(id="", task="t", instruction="do t", fps=1.0, raw_frames=None, place=None, source="s")
PLAIN: dict[str, Any] = {
    "max_episodes": None,
    "task_names": None,
    "val_episodes": None,
    "val_tasks": (),
    "val_fraction": 0.3,
}


def listed(items: Sequence[Listed], **options: Any) -> list[Listed]:
    source: Any = SimpleNamespace(episodes=lambda: items)
    chosen: Any = SimpleNamespace(**PLAIN | options)
    return list_episodes(source, chosen)


def items(count: int, **changes: Any) -> list[Listed]:
    return [dataclasses.replace(ITEM, id=f"e{i}", **changes) for i in range(count)]


def test_a_hash_of_the_id_decides_where_nothing_else_does():
    wanted = [hashed_split(f"e{i}", validation_fraction=0.3) for i in range(40)]
    assert [item.split for item in listed(items(40))] == wanted
    assert set(wanted) == {"train", "val"}


def test_a_group_shares_its_split():
    assert len({item.split for item in listed(items(40, group="g"))}) == 1


def test_the_sources_own_split_wins_over_the_hash():
    assert {item.split for item in listed(items(20, split="train"), val_fraction=0.9)} == {"train"}


def test_what_is_listed_wins_over_everything(tmp_path):
    path = tmp_path / "ids"
    path.write_text("e1\n\n e3 \n")
    found = listed(items(5, split="val"), val_episodes=path, val_tasks=("t",))
    assert [item.split for item in found] == ["train", "val", "train", "val", "train"]


def test_the_first_n():
    assert [item.id for item in listed(items(5), max_episodes=2)] == ["e0", "e1"]


def test_ids_are_unique():
    with pytest.raises(InputError, match="episode id = 'e0'"):
        listed([*items(2), *items(1)])


@pytest.mark.parametrize("text", ["[]", '{"do t": 3}', '{"do t": ""}', "{"])
def test_names_of_tasks_are_an_object_of_texts(tmp_path, text):
    path = tmp_path / "names.json"
    path.write_text(text)
    with pytest.raises(InputError, match="instruction to task"):
        listed(items(1), task_names=path)


def test_files_that_are_not_there_are_named(tmp_path):
    for option in ("task_names", "val_episodes"):
        with pytest.raises(InputError, match="nowhere"):
            listed(items(1), **{option: tmp_path / "nowhere"})
