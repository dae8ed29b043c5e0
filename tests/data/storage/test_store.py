"""Reading a store: the same in both containers, from threads and processes, whole and in part."""

import multiprocessing
import pickle
import shutil
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

from tests.support.stores import rewrite_index, tiny_arrays, write_tiny_store
from wam_jax.data import files
from wam_jax.data.encoders.text import HashedWordEncoder
from wam_jax.data.storage import index, store, tensorio
from wam_jax.data.storage.manifest import PAYLOAD_FORMATS
from wam_jax.data.storage.payloads import episode_file, shard_file
from wam_jax.data.storage.store import INDEX, MANIFEST, open_store
from wam_jax.errors import InputError

PAYLOAD_FILE = {"array_record": shard_file(0), "safetensors": episode_file(1)}


@pytest.fixture(params=PAYLOAD_FORMATS)
def path(request, tmp_path):
    return write_tiny_store(tmp_path / "store", payload=request.param)


def assert_same(found, wanted):
    assert set(found) == set(wanted)
    for name, array in wanted.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def test_episodes_come_back_as_they_were_written(path):
    store = open_store(path)
    assert len(store) == 4
    for episode, frames in enumerate((3, 5, 2, 4)):
        assert_same(store.read(episode), tiny_arrays(frames, seed=1000 * episode))


def test_part_of_an_episode_is_the_rows_of_its_frames(path):
    whole, part = tiny_arrays(5, seed=1000), open_store(path).read(1, frames=(1, 4))
    assert_same(
        part,
        {
            "video_latents": whole["video_latents"][:, 1:4],
            "condition_latents": whole["condition_latents"][:, 1:4],
            "actions": whole["actions"][2:8],
            "action_mask": whole["action_mask"][2:8],
            "state": whole["state"][4:13],
            "proprio_context_frames": whole["proprio_context_frames"][1:4],
        },
    )


@pytest.mark.parametrize("frames", [(0, 6), (-1, 2), (2, 2)])
def test_frames_that_are_not_there_are_refused(path, frames):
    with pytest.raises(InputError, match="sample ep1: frames"):
        open_store(path).read(1, frames=frames)


def test_the_container_does_not_change_the_fingerprint(tmp_path):
    paths = [write_tiny_store(tmp_path / payload, payload=payload) for payload in PAYLOAD_FORMATS]
    assert len({open_store(path).fingerprint for path in paths}) == 1
    assert open_store(write_tiny_store(tmp_path / "c", seed=1)).fingerprint != open_store(paths[0]).fingerprint


def test_text_is_that_of_the_encoder(path):
    store = open_store(path)
    for prompt in ("do push", ""):
        np.testing.assert_array_equal(store.text(prompt), HashedWordEncoder(dim=4, tokens=4).encode(prompt))


def test_threads_share_a_store(path):
    store = open_store(path)
    with ThreadPoolExecutor(8) as pool:
        for arrays in pool.map(store.read, [1] * 200):
            assert_same(arrays, tiny_arrays(5, seed=1000))


def test_a_used_store_pickles(path):
    store = open_store(path)
    store.read(0), store.text(""), store.index.ids
    copy = pickle.loads(pickle.dumps(store))
    assert_same(copy.read(2), tiny_arrays(2, seed=2000))
    assert copy.fingerprint == store.fingerprint


def test_another_process_reads_it(path):
    store = open_store(path)
    store.read(0)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert_same(pool.submit(store.read, 1).result(), tiny_arrays(5, seed=1000))


@pytest.fixture
def remote(monkeypatch):
    """Takes the ways of object stores, on files that are here."""
    for module in (files, index, store, tensorio):
        monkeypatch.setattr(module, "is_remote", lambda _: True)


@pytest.mark.usefixtures("remote")
def test_files_are_read_remotely(tmp_path):
    found = open_store(write_tiny_remotely(tmp_path, "safetensors"))
    assert_same(found.read(1), tiny_arrays(5, seed=1000))
    np.testing.assert_array_equal(found.read(1, frames=(1, 3))["state"], tiny_arrays(5, seed=1000)["state"][4:9])
    assert found.text("do push").any()


@pytest.mark.usefixtures("remote")
def test_shards_are_not_read_remotely(tmp_path):
    with pytest.raises(InputError, match="ArrayRecord needs a local or mounted disk"):
        open_store(write_tiny_remotely(tmp_path, "array_record"))


def write_tiny_remotely(path, payload):
    """Writing is always local."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "is_remote", lambda _: False)
        return write_tiny_store(path / "store", payload=payload)


def test_arrays_are_read_only(path):
    with pytest.raises(ValueError, match="read-only"):
        open_store(path).read(0)["actions"][0] = 1


def test_it_can_be_moved(path, tmp_path):
    shutil.move(path, tmp_path / "moved")
    assert_same(open_store(str(tmp_path / "moved")).read(0), tiny_arrays(3))


@pytest.mark.parametrize("where", ["nowhere", "embedded:nothing", ".."])
def test_where_there_is_no_store_the_remedy_names_those_of_the_package(tmp_path, where):
    with pytest.raises(InputError, match=r"store = .*one of embedded:metaworld12"):
        open_store(where if where.startswith("embedded") else tmp_path / where)


@pytest.mark.parametrize("damage", ["truncated", "missing"])
def test_damaged_payload_files_are_found_on_opening(path, damage):
    file = path / PAYLOAD_FILE[open_store(path).manifest.payload.format]
    content = file.read_bytes()
    file.unlink()
    if damage == "truncated":
        file.write_bytes(content[:-7])
    with pytest.raises(InputError, match=rf"payload.*{file.name}"):
        open_store(path)


def test_damaged_payloads_are_found_on_reading(path):
    file = path / PAYLOAD_FILE[open_store(path).manifest.payload.format]
    file.write_bytes(b"\0" * file.stat().st_size)
    with pytest.raises(InputError, match=f"{file.name}.*copy"):
        open_store(path).read(1)


def test_a_newer_schema_is_refused(path):
    text = (path / MANIFEST).read_text()
    (path / MANIFEST).write_text(text.replace("store.v1", "store.v9"))
    with pytest.raises(InputError, match=r"schema = 'wam_jax\.store.v9'"):
        open_store(path)


def test_a_missing_or_foreign_index_is_refused(path, tmp_path):
    shutil.copy(write_tiny_store(tmp_path / "other", lengths=(3, 3)) / INDEX, path / INDEX)
    with pytest.raises(InputError, match=r"index .* = 2: rows, but store.json counts 4"):
        open_store(path)
    (path / INDEX).unlink()
    with pytest.raises(InputError, match=r"index = .*the file is missing"):
        open_store(path)


def test_an_index_that_is_no_parquet_is_refused(path):
    (path / INDEX).write_bytes(b"nonsense")
    with pytest.raises(InputError, match="a readable parquet file"):
        open_store(path)


def test_an_instruction_without_text_is_found_on_opening(path):
    rewrite_index(path, "instruction", 2, "do more")
    with pytest.raises(InputError, match="text = 'do more': 1 instructions have no vectors"):
        open_store(path)
