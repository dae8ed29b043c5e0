"""The index: columns as arrays, read when they are wanted."""

import pickle

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.support.stores import rewrite_index, write_tiny_store
from wam_jax.data.storage.fields import FIELDS
from wam_jax.data.storage.index import ABSENT, Index, fingerprint_of, index_table
from wam_jax.data.storage.store import INDEX
from wam_jax.errors import InputError

ROW = {
    "id": "a",
    "source": "s",
    "task": "t",
    "instruction": "do t",
    "fps": 30.0,
    "shard": 0,
    "record": 0,
    "num_bytes": 9,
    "sha256": b"0" * 32,
}


@pytest.fixture
def store(tmp_path):
    return write_tiny_store(tmp_path / "store", splits=["train", None, "train", "val"], state_dim=None)


def test_columns_are_arrays(store):
    index = Index(store / INDEX)
    assert len(index) == 4
    assert index.ids.tolist() == ["ep0", "ep1", "ep2", "ep3"]
    assert index.tasks.tolist() == ["reach", "push", "reach", "push"]
    assert index.instructions.tolist() == ["do reach", "do push", "do reach", "do push"]
    assert index.splits.tolist() == ["train", None, "train", "val"]
    assert index.sources.tolist() == ["tiny"] * 4
    assert index.fps.tolist() == [20.0] * 4
    assert index.shards.tolist() == [0] * 4
    assert index.records.tolist() == [0, 1, 2, 3]


def test_extents_of_every_field_are_int32_with_absent_ones_marked(store):
    extents = Index(store / INDEX).extents
    assert list(extents) == [field.name for field in FIELDS]
    assert extents["video_latents"].tolist() == [3, 5, 2, 4]
    assert extents["actions"].tolist() == [6, 10, 4, 8]
    assert extents["state"].tolist() == [ABSENT] * 4
    assert {array.dtype for array in extents.values()} == {np.dtype(np.int32)}


def test_columns_cannot_be_written_to(store):
    with pytest.raises(ValueError, match="read-only"):
        Index(store / INDEX).extents["actions"][0] = 1


def test_a_file_pickles_as_its_path(store):
    index = Index(store / INDEX)
    assert len(pickle.dumps(index)) < 1000
    assert pickle.loads(pickle.dumps(index)).ids.tolist() == index.ids.tolist()


def test_an_index_in_memory_is_the_same(store):
    index = Index(Index(store / INDEX).table())
    assert index.splits.tolist() == ["train", None, "train", "val"]
    assert fingerprint_of(pickle.loads(pickle.dumps(index))) == fingerprint_of(Index(store / INDEX))


def test_absent_is_not_empty():
    index = Index(index_table([ROW | {"extent_text_context": 0}]))
    assert index.extents["text_context"].tolist() == [0]
    assert index.extents["state"].tolist() == [ABSENT]


@pytest.mark.parametrize(
    ("column", "value"),
    [("id", "b"), ("split", "val"), ("fps", 31.0), ("extent_actions", 3), ("extent_state", 0), ("sha256", b"1" * 32)],
)
def test_the_fingerprint_sees_every_column(store, column, value):
    before = fingerprint_of(Index(store / INDEX))
    rewrite_index(store, column, 0, value)
    assert fingerprint_of(Index(store / INDEX)) != before


def test_the_fingerprint_does_not_see_where_payloads_lie(store):
    before = fingerprint_of(Index(store / INDEX))
    rewrite_index(store, "record", 0, 7)
    assert fingerprint_of(Index(store / INDEX)) == before


def test_a_missing_column_is_named(tmp_path):
    pq.write_table(index_table([ROW]).drop_columns(["extent_state"]), tmp_path / "i.parquet")
    with pytest.raises(InputError, match="extent_state"):
        Index(tmp_path / "i.parquet")


def test_columns_of_users_are_ignored(tmp_path):
    table = index_table([ROW])
    pq.write_table(table.append_column("mine", table["fps"]), tmp_path / "i.parquet")
    assert Index(tmp_path / "i.parquet").table().column_names == table.column_names


def test_a_million_episodes_are_cheap(tmp_path):
    rows = 1_000_000
    table = index_table([ROW]).take(np.zeros(rows, np.int64))
    pq.write_table(table, tmp_path / "i.parquet")
    index = Index(tmp_path / "i.parquet")
    assert index.extents["actions"].shape == (rows,)
    assert index.tasks[-1] is index.tasks[0]
