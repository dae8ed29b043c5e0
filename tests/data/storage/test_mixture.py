"""Several stores as one."""

import json
import pickle

import numpy as np
import pytest

from tests.support.stores import tiny_arrays, tiny_encoder, write_tiny_store
from wam_jax.data import inspect
from wam_jax.data.encoders.text import HashedWordEncoder
from wam_jax.data.inspection.verify import check_fingerprint, verify_episode
from wam_jax.data.storage.manifest import EncoderRecord
from wam_jax.data.storage.mixture import Mixture, open_mixture
from wam_jax.data.storage.splits import split_episodes
from wam_jax.data.storage.store import open_store
from wam_jax.data.storage.writer import Episode, StoreWriter
from wam_jax.errors import InputError


def write(path, count, *, encoder=None, text=None, action_dim=2, slots=2, state_dim=3, task="push"):
    """A store whose ids begin with its name; the last episode validates."""
    encoder, text = encoder or tiny_encoder(3), text or HashedWordEncoder(dim=4, tokens=4)
    with StoreWriter(path, encoder=encoder, actions_per_frame=slots, text_encoder=text) as writer:
        for i in range(count):
            about = {"source": path.name, "task": task, "instruction": f"do {task}", "fps": 20.0}
            episode = Episode(id=f"{path.name}-{i}", split="val" if i == count - 1 else "train", **about)
            arrays = tiny_arrays(
                3 + i,
                channels=encoder.channels,
                action_dim=action_dim,
                slots=slots,
                state_dim=state_dim,
                seed=len(path.name) + 10 * i,
            )
            writer.add(episode, arrays)
    return path


@pytest.fixture
def places(tmp_path):
    return write(tmp_path / "a", 3), write(tmp_path / "bb", 4, task="reach")


@pytest.fixture
def mixture(places):
    return open_mixture([(places[0], 3.0), (places[1], 1.0)])


def test_episodes_are_those_of_the_stores(mixture, places):
    assert mixture.index.ids.tolist() == ["a-0", "a-1", "a-2", "bb-0", "bb-1", "bb-2", "bb-3"]
    assert mixture.store_of.tolist() == [0, 0, 0, 1, 1, 1, 1]
    second = open_store(places[1])
    for name, array in second.read(2).items():
        np.testing.assert_array_equal(mixture.read(5)[name], array)
    np.testing.assert_array_equal(mixture.read(5, frames=(1, 3))["actions"], second.read(2, frames=(1, 3))["actions"])
    assert mixture.read_bytes(0) == open_store(places[0]).read_bytes(0)


def test_splits_are_the_stores_own(mixture):
    assert split_episodes(mixture.index, "val").tolist() == [2, 6]


def test_texts_are_those_of_all(mixture, places):
    assert mixture.prompts == {"", "do push", "do reach"}
    np.testing.assert_array_equal(mixture.text("do reach"), open_store(places[1]).text("do reach"))
    np.testing.assert_array_equal(mixture.text(""), open_store(places[0]).text(""))
    with pytest.raises(InputError):
        mixture.text("do nothing")


def test_it_is_sound_as_a_store_is(mixture):
    check_fingerprint(mixture)
    for episode in range(len(mixture)):
        verify_episode(mixture, episode)


def test_statistics_are_those_of_all_values(mixture):
    train = [mixture.read(i) for i in split_episodes(mixture.index, "train")]
    values = np.concatenate([arrays["actions"][2:] for arrays in train])
    found = mixture.manifest.statistics["actions"]
    np.testing.assert_allclose(found.mean, values.mean(0), rtol=1e-6)
    np.testing.assert_allclose(found.std, values.std(0), rtol=1e-6)
    np.testing.assert_allclose(found.max, values.max(0))


def test_it_pickles(mixture):
    again = pickle.loads(pickle.dumps(mixture))
    assert isinstance(again, Mixture)
    assert again.fingerprint == mixture.fingerprint
    np.testing.assert_array_equal(again.read(6)["actions"], mixture.read(6)["actions"])


def test_the_fingerprint_is_of_data_and_weights(mixture, places):
    other = open_mixture([(places[0], 1.0), (places[1], 1.0)])
    assert other.fingerprint != mixture.fingerprint
    assert open_mixture([(places[0], 3.0), (places[1], 1.0)]).fingerprint == mixture.fingerprint


def test_a_store_without_states_mixes(tmp_path, places):
    bare = write(tmp_path / "bare", 2, state_dim=None)
    found = open_mixture([(bare, 1.0), (places[0], 1.0)])
    assert found.manifest.dims.state_dim == 3
    assert "state" not in found.read(0)


OTHER = EncoderRecord("noise", "stand-in", 1, 4, 3, "unit variance", sha256="0" * 64)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"encoder": OTHER}, r"encoder of .*latents of two encoders are never mixed"),
        ({"text": HashedWordEncoder(dim=4, tokens=5)}, r"text of .*tokens 5, not 4"),
        ({"slots": 4}, r"actions_per_frame of .*4, not 2"),
        ({"action_dim": 3}, r"action_dim of .* = 3: 2, as in the first store"),
        ({"state_dim": 2}, r"state_dim of .* = 2: 3, as in the first store"),
    ],
)
def test_stores_that_differ_are_refused(tmp_path, places, how, said):
    other = write(tmp_path / "other", 2, **how)
    with pytest.raises(InputError, match=said):
        open_mixture([(places[0], 1.0), (other, 1.0)])


def test_shared_ids_are_refused(tmp_path):
    places = [write_tiny_store(tmp_path / name) for name in "ab"]
    with pytest.raises(InputError, match=r"id = 'ep0'.*another --name"):
        open_mixture([(place, 1.0) for place in places])


def test_inspection_of_several_stores(tmp_path, places, capsys):
    words = [*map(str, places), "--verify", "--json"]
    assert inspect.main(words) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["episodes"] == {"push": {"train": 2, "val": 1}, "reach": {"train": 3, "val": 1}}
    assert report["path"] == f"{places[0]} + {places[1]}"
    next(places[1].glob("payload-*")).write_bytes(b"")
    with pytest.raises(InputError, match="payload"):
        inspect.main(words)
    with pytest.raises(InputError, match="never mixed"):
        inspect.main([str(places[0]), str(write(tmp_path / "other", 2, encoder=OTHER))])


@pytest.mark.parametrize("weight", [0.0, -1.0, float("inf"), float("nan")])
def test_odd_weights_are_refused(places, weight):
    with pytest.raises(InputError, match="weights above 0"):
        open_mixture([(places[0], weight)])
