"""Splits: the column wins, a hash fills in, nothing is ever borrowed from the other split."""

from typing import Any

import numpy as np
import pytest

from tests.data.indexes import make_index
from wam_jax.data.storage.splits import hashed_split, split_episodes
from wam_jax.errors import InputError


def test_the_column_wins():
    index = make_index([3, 3, 3], splits=["val", "train", "val"])
    assert split_episodes(index, "val").tolist() == [0, 2]
    assert split_episodes(index, "train").tolist() == [1]


def test_episodes_without_a_split_follow_the_hash_of_their_id():
    index = make_index([3] * 60)
    wanted = [i for i in range(60) if hashed_split(f"ep{i}", validation_fraction=0.3) == "val"]
    assert split_episodes(index, "val", validation_fraction=0.3).tolist() == wanted
    assert 0 < len(wanted) < 60


def test_the_hash_is_stable():
    assert [i for i in range(40) if hashed_split(f"ep{i}") == "val"] == [6, 7, 14, 17, 21]


def test_adding_episodes_moves_none():
    before, after = (split_episodes(make_index([3] * n), "val", validation_fraction=0.3) for n in (40, 60))
    np.testing.assert_array_equal(after[after < 40], before)


def test_source_hash_ignores_the_column():
    index = make_index([3] * 60, splits=["train"] * 60)
    assert len(split_episodes(index, "val", source="hash", validation_fraction=0.5)) > 10


def test_source_column_wants_every_episode_named():
    index = make_index([3, 3], splits=["train", None])
    with pytest.raises(InputError, match=r"data\.split\.source = 'column': 'ep1'"):
        split_episodes(index, "train", source="column")


def test_an_empty_split_is_an_error_and_no_training_episode():
    index = make_index([3, 3], splits=["train", "train"])
    with pytest.raises(InputError, match=r"split 'val' = 0: no episode of 2"):
        split_episodes(index, "val")


def test_tasks_are_held_out():
    index = make_index([3, 3, 3, 3], tasks=["a", "b", "a", "c"], splits=["val", "val", "val", "val"])
    how: Any = {"source": "task", "validation_tasks": ["b", "c"]}
    assert split_episodes(index, "val", **how).tolist() == [1, 3]
    assert split_episodes(index, "train", **how).tolist() == [0, 2]


def test_listed_episodes_are_held_out():
    index = make_index([3, 3, 3], splits=["val", "train", "train"])
    how: Any = {"source": "list", "validation_episodes": ["ep2"]}
    assert split_episodes(index, "val", **how).tolist() == [2]
    assert split_episodes(index, "train", **how).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"source": "task", "validation_tasks": ["d"]}, r"data\.split\.val_tasks = 'd': some of "),
        ({"source": "task"}, r"data\.split\.val_tasks = None"),
        ({"source": "list", "validation_episodes": ["ep9"]}, r"data\.split\.val_episodes = 'ep9': some of ep0, ep1"),
        ({"source": "list"}, r"data\.split\.val_episodes = None"),
    ],
)
def test_what_is_held_out_must_be_there(how, said):
    with pytest.raises(InputError, match=said):
        split_episodes(make_index([3, 3]), "val", **how)


def test_holding_everything_out_leaves_nothing_to_train():
    index = make_index([3, 3], tasks=["a", "a"])
    with pytest.raises(InputError, match="split 'train' = 0"):
        split_episodes(index, "train", source="task", validation_tasks=["a"])
