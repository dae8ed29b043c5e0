"""Rows of one episode out of shared files."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from etils import epath

from wam_jax.data.conversion.paths import directories_with, files_below, fill, inside
from wam_jax.data.conversion.rows import episode_rows, matrix
from wam_jax.errors import InputError

LENGTHS = (3, 4, 2)


def write(path, *, row_group_size, drop=(), **columns):
    number = np.repeat(np.arange(len(LENGTHS)), LENGTHS)
    table = {
        "action": np.arange(9.0),
        "episode_index": number,
        "frame_index": np.concatenate([np.arange(length) for length in LENGTHS]),
    } | columns
    pq.write_table(
        pa.table({name: value for name, value in table.items() if name not in drop}),
        path,
        row_group_size=row_group_size,
    )
    return epath.Path(path)


@pytest.mark.parametrize("row_group_size", [1, 3, 4, 100])
def test_rows_are_found_however_they_are_grouped(tmp_path, row_group_size):
    path = write(tmp_path / "x.parquet", row_group_size=row_group_size)
    found = [episode_rows(path, number, ["action"])["action"].to_pylist() for number in range(3)]
    assert found == [[0, 1, 2], [3, 4, 5, 6], [7, 8]]


def test_a_file_without_numbers_is_one_episode(tmp_path):
    path = write(tmp_path / "x.parquet", row_group_size=4, drop=("episode_index", "frame_index"))
    assert len(episode_rows(path, 7, ["action"])) == 9


def test_a_file_that_was_written_anew_is_read_anew(tmp_path):
    for first in (0.0, 5.0):
        path = write(tmp_path / "x.parquet", row_group_size=9, action=np.arange(9.0) + first)
        assert episode_rows(path, 0, ["action"])["action"][0].as_py() == first


@pytest.mark.parametrize(
    ("columns", "number", "said"),
    [
        ({}, 3, "no row of episode 3"),
        ({"frame_index": np.zeros(9, int)}, 0, "frames 0, 1, 2"),
        ({"drop": ("action",)}, 0, "column = 'action': one of episode_index, frame_index"),
    ],
)
def test_rows_that_cannot_be_used_are_named(tmp_path, columns, number, said):
    path = write(tmp_path / "x.parquet", row_group_size=4, **columns)
    with pytest.raises(InputError, match=said):
        episode_rows(path, number, ["action"])


@pytest.mark.parametrize(
    "values",
    [
        pa.array([[1, 2], [3, 4]], pa.list_(pa.float64())),
        pa.array([[1, 2], [3, 4]], pa.list_(pa.float32(), 2)),
        pa.array([[1, 2], [3, 4]], pa.large_list(pa.int64())),
    ],
)
def test_lists_become_a_matrix(values):
    found = matrix(pa.table({"a": values}), "a", where="x")
    assert (found.dtype, found.tolist()) == (np.float32, [[1, 2], [3, 4]])


def test_numbers_become_a_column():
    assert matrix(pa.table({"a": [1, 2]}), "a", where="x").tolist() == [[1], [2]]


@pytest.mark.parametrize("values", [pa.array([[1], [2, 3, 4]]), pa.array(["x", "y"]), pa.array([[["x"]], [["y"]]])])
def test_other_columns_are_refused(values):
    with pytest.raises(InputError, match="lists of numbers"):
        matrix(pa.table({"a": values}), "a", where="x")


def test_templates_are_filled():
    where = "data/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.parquet"
    values = {"episode_chunk": 2, "episode_index": 2001, "video_key": "a.b"}
    assert fill(where, values, where="x") == "data/chunk-002/a.b/episode_002001.parquet"


@pytest.mark.parametrize("template", ["{episode_index.__class__}/../x", "../{a}", "/etc/{a}", "{b}", "s3://x/{a}", ""])
def test_templates_neither_climb_nor_call(template):
    with pytest.raises(InputError):
        fill(template, {"a": 1}, where="x")


def test_widths_are_small():
    assert fill("{a:099999999d}", {"a": 1}, where="x") == "{a:099999999d}"
    assert inside("a/b", where="x") == "a/b"


def test_directories_are_walked_without_hidden_ones(tmp_path):
    for name in ("a/meta/info.json", "b/c/meta/info.json", ".git/meta/info.json", "a/deep/meta/info.json"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    root = epath.Path(tmp_path)
    assert [str(path.relative_to(root)) for path in directories_with(root, "meta/info.json")] == ["a", "b/c"]
    assert len(list(files_below(root))) == 3
