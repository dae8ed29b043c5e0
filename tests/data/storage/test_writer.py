"""Writing a store: complete or not there, valid or refused."""

import hashlib
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from tests.support.stores import tiny_arrays, tiny_encoder, write_tiny_store
from wam_jax.data.encoders.text import HashedWordEncoder, record_of
from wam_jax.data.inspection.verify import find_problems
from wam_jax.data.storage.store import CODEC, MANIFEST, open_store
from wam_jax.data.storage.text_cache import DESCRIPTION, VECTORS, CachedTextEncoder, write_text_cache
from wam_jax.data.storage.writer import Episode, StoreWriter
from wam_jax.errors import InputError


def episode(name="a", split="train"):
    return Episode(id=name, source="s", task="t", instruction="do t", fps=20, split=split)


def writer(path, **options):
    return StoreWriter(path, encoder=tiny_encoder(3), actions_per_frame=2, **options)


def write(path, *steps):
    """Writes one episode and then takes `steps`."""
    with writer(path) as open_writer:
        open_writer.add(episode(), tiny_arrays(3))
        for step in steps:
            step(open_writer)


def test_nothing_is_there_until_the_end(tmp_path):
    with writer(tmp_path / "s") as open_writer:
        open_writer.add(episode(), tiny_arrays(3))
        assert not (tmp_path / "s").exists()
    assert list(tmp_path.iterdir()) == [tmp_path / "s"]


def test_a_failure_leaves_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError):
        write(tmp_path / "s", lambda _: 1 / 0)
    assert list(tmp_path.iterdir()) == []


def test_a_killed_writer_leaves_no_store(tmp_path):
    code = (
        "import sys, os, signal; from tests.data.storage.test_writer import *\n"
        "with writer(sys.argv[1]) as w: w.add(episode(), tiny_arrays(3)); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "s")], env=os.environ, check=False)
    assert done.returncode == -signal.SIGKILL
    assert all(path.name.endswith(".partial") for path in tmp_path.iterdir())
    assert not list(tmp_path.rglob(MANIFEST))


def test_an_existing_directory_is_never_touched(tmp_path):
    (tmp_path / "s").mkdir()
    with pytest.raises(InputError, match="exists already"), writer(tmp_path / "s"):
        pass
    assert list(tmp_path.iterdir()) == [tmp_path / "s"]


def test_a_directory_that_appears_meanwhile_is_not_replaced(tmp_path):
    with pytest.raises(InputError, match="appeared"):
        write(tmp_path / "s", lambda _: (tmp_path / "s").mkdir())
    assert list((tmp_path / "s").iterdir()) == []


def test_a_store_without_episodes_is_refused(tmp_path):
    with pytest.raises(InputError, match="no episode was added"), writer(tmp_path / "s"):
        pass


def test_ids_are_unique(tmp_path):
    with pytest.raises(InputError, match="episode id = 'a'"):
        write(tmp_path / "s", lambda open_writer: open_writer.add(episode(), tiny_arrays(3)))


def test_invalid_arrays_are_refused(tmp_path):
    arrays = tiny_arrays(3)
    arrays["actions"][2, 1] = np.nan
    with pytest.raises(InputError, match="sample a: actions = nan"), writer(tmp_path / "s") as open_writer:
        open_writer.add(episode(), arrays)


def test_sizes_are_those_of_the_first_episode_that_has_them(tmp_path):
    with writer(tmp_path / "s") as open_writer:
        open_writer.add(episode("a"), tiny_arrays(3, state_dim=None))
        open_writer.add(episode("b"), tiny_arrays(3))
        with pytest.raises(InputError, match=r"sample c: actions = .*action_dim is 2"):
            open_writer.add(episode("c"), tiny_arrays(3, action_dim=5))
    store = open_store(tmp_path / "s")
    assert store.manifest.dims.state_dim == 3
    assert store.index.extents["state"].tolist() == [-1, 9]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"payload": "tar"}, "payload.format = 'tar'"),
        ({"compression": "gzip"}, "compression = 'gzip'"),
        ({"compression": "zstd:23"}, "compression = 'zstd:23'"),
        ({"compression": "zstd:3", "payload": "safetensors"}, "none for safetensors"),
        ({"payload": "safetensors"}, "local or mounted directory"),
    ],
)
def test_options_that_cannot_work_are_refused(tmp_path, options, message):
    path = "gs://bucket/store" if "local" in message else tmp_path / "s"
    with pytest.raises(InputError, match=message), writer(path, **options):
        pass
    assert list(tmp_path.iterdir()) == []


def test_shards_and_compression_change_nothing_that_is_read(tmp_path):
    with writer(tmp_path / "s", shard_bytes=2000, compression="zstd:9") as open_writer:
        for i in range(5):
            open_writer.add(episode(f"e{i}"), tiny_arrays(4, seed=i))
    store = open_store(tmp_path / "s")
    assert len(store.manifest.payload.shards) > 1
    assert sum(shard.num_records for shard in store.manifest.payload.shards) == 5
    for i in range(5):
        np.testing.assert_array_equal(store.read(i)["state"], tiny_arrays(4, seed=i)["state"])


def test_statistics_are_of_unmasked_entries_of_the_train_split(tmp_path):
    with writer(tmp_path / "s") as open_writer:
        for seed, split in enumerate(["train", "val", "train"]):
            open_writer.add(episode(f"e{seed}", split), tiny_arrays(4, seed=seed))
    found = open_store(tmp_path / "s").manifest.statistics["actions"]
    values = np.concatenate([tiny_arrays(4, seed=seed)["actions"][2:] for seed in (0, 2)])
    assert found.count == (12, 12)
    np.testing.assert_allclose(found.mean, values.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(found.std, values.std(axis=0), rtol=1e-6)
    np.testing.assert_array_equal(found.max, values.max(axis=0))


def test_the_codec_and_what_is_noted_are_kept(tmp_path):
    with writer(tmp_path / "s", codec=b"codec", provenance={"made_by": "us"}) as open_writer:
        open_writer.add(episode(), tiny_arrays(3))
        open_writer.note(quality=1.5)
    store = open_store(tmp_path / "s")
    assert (tmp_path / "s" / CODEC).read_bytes() == b"codec"
    assert store.manifest.encoder.sha256 == hashlib.sha256(b"codec").hexdigest()
    assert store.manifest.provenance == {"made_by": "us", "quality": 1.5}


def test_a_store_without_text_says_so(tmp_path):
    write(tmp_path / "s")
    with pytest.raises(InputError, match="this store has no text"):
        open_store(tmp_path / "s").text("do t")


def test_text_of_a_real_encoder_comes_through_its_cache(tmp_path):
    encoder = HashedWordEncoder(dim=4, tokens=6)
    write_text_cache(tmp_path, encoder, ["do reach", "do push", "never asked for"])
    found = open_store(write_tiny_store(tmp_path / "s", text_encoder=CachedTextEncoder(tmp_path)))
    assert found.manifest.text == record_of(encoder)
    assert found.prompts == {"", "do reach", "do push"}
    np.testing.assert_array_equal(found.text("do push"), encoder.encode("do push"))


def test_a_prompt_outside_the_cache_leaves_no_store(tmp_path):
    write_text_cache(tmp_path, HashedWordEncoder(), ["do push"])
    with pytest.raises(InputError, match="prompt = 'do reach'"):
        write_tiny_store(tmp_path / "s", text_encoder=CachedTextEncoder(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {DESCRIPTION, VECTORS}


def test_what_was_written_has_no_problems(tmp_path):
    store = open_store(write_tiny_store(tmp_path / "s"))
    assert list(find_problems(store, payloads=True)) == []
