"""The data set that comes with the package: sound, small, said to be what it is."""

from collections import Counter

import numpy as np
import pytest

from tests.support.stores import write_tiny_store
from wam_jax.data.encoders.codec import codec_of
from wam_jax.data.files import file_size
from wam_jax.data.inspection.verify import find_problems
from wam_jax.data.recording.tasks import DEFAULT_TASKS
from wam_jax.data.storage.store import open_store

LIMIT_BYTES = 5_800_000
DEMONSTRATIONS = 60
BRANCHES = {"train": 1, "val": 1}
"""Of each task."""


@pytest.fixture(scope="module")
def store():
    return open_store("embedded:metaworld12")


def test_every_episode_is_as_it_was_written(store):
    assert list(find_problems(store, payloads=True)) == []


def test_it_is_small_enough_to_come_with_the_code(store):
    assert sum(file_size(path) for path in store.path.iterdir()) <= LIMIT_BYTES


def test_every_task_trains_and_validates(store):
    counts = Counter(zip(store.index.tasks, store.index.splits, store.index.sources, strict=True))
    demonstrations = {"train": 4, "val": 1}
    assert counts == {
        (task, split, source): several[split]
        for source, several in (("metaworld", demonstrations), ("counterfactual_dynamics", BRANCHES))
        for task in DEFAULT_TASKS
        for split in ("train", "val")
    }


def test_demonstrations_come_first(store):
    assert set(store.index.sources[:DEMONSTRATIONS]) == {"metaworld"}
    assert set(store.index.sources[DEMONSTRATIONS:]) == {"counterfactual_dynamics"}


def test_lengths_are_natural_and_those_of_branches_all_the_same(store):
    frames = store.index.extents["video_latents"][:DEMONSTRATIONS]
    assert (frames.min(), np.median(frames), frames.max(), frames.sum()) == (9, 19.5, 55, 1357)
    assert set(store.index.extents["video_latents"][DEMONSTRATIONS:]) == {9}


def test_a_branch_begins_in_its_parent_and_leaves_it(store):
    row = {name: number for number, name in enumerate(store.index.ids)}
    told = store.manifest.provenance["branches"]["episodes"]
    assert list(told) == store.index.ids[DEMONSTRATIONS:].tolist()
    for name, (parent, start) in told.items():
        own, whole, first = store.read(row[name]), store.read(row[parent]), start // 4
        same = slice(4 * first + 4, 4 * first + 36)
        assert store.index.splits[row[name]] == store.index.splits[row[parent]]
        np.testing.assert_array_equal(own["video_latents"][:, 0], whole["condition_latents"][:, first])
        np.testing.assert_array_equal(own["state"][0], whole["state"][start])
        given = whole["actions"][same]
        assert np.abs(own["actions"][4 : 4 + len(given)] - given).mean() > 0.1
        assert np.abs(own["actions"]).max() <= 1


def test_it_says_what_it_is(store):
    provenance = store.manifest.provenance
    assert "not real-robot data" in provenance["nature"]
    assert provenance["seeds"]["stick-pull"] == [1, 2, 3, 4, 6]
    assert store.manifest.encoder.kind == "stand-in"


def test_actions_that_lead_nowhere_are_masked(store):
    arrays = store.read(0)
    raw_actions = int(arrays["state_mask"][:, 0].sum()) - 1
    assert arrays["action_mask"][:, 0].tolist() == [0] * 4 + [1] * raw_actions + [0] * (-raw_actions % 4)
    assert not arrays["actions"][arrays["action_mask"] == 0].any()
    assert np.abs(arrays["actions"]).max() <= 1


def test_the_first_condition_latent_is_the_first_latent(store):
    for episode in (0, 30, 59):
        arrays = store.read(episode)
        np.testing.assert_array_equal(arrays["condition_latents"][:, 0], arrays["video_latents"][:, 0])


def test_latents_decode_to_the_frames_that_condition_latents_show(store):
    arrays, codec = store.read(int(np.argmin(store.index.extents["video_latents"]))), codec_of(store)
    assert codec is not None
    video = codec.decode(arrays["video_latents"])
    alone = codec.decode_frame(arrays["condition_latents"])
    assert video.shape == (len(arrays["state"]), 128, 128, 3)
    assert np.abs(video[::4].astype(int) - alone).mean() < 4
    assert np.abs(video[::4].astype(int) - alone[::-1]).mean() > 6


def test_latents_have_unit_scale(store):
    latents = np.concatenate([store.read(i)["video_latents"].reshape(48, -1) for i in range(DEMONSTRATIONS)], axis=1)
    assert latents.astype(np.float32).std() == pytest.approx(1, abs=0.05)


def test_a_store_without_a_codec_has_none(tmp_path):
    assert codec_of(open_store(write_tiny_store(tmp_path / "s"))) is None
