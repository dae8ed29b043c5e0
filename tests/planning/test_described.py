"""Described data: a store's index without a store, zeros for payloads, and refusals by name."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from tests.support.stores import write_tiny_store
from wam_jax.data.storage.fields import BY_NAME
from wam_jax.data.storage.store import open_store
from wam_jax.data.storage.validate import validate_sample
from wam_jax.errors import InputError
from wam_jax.planning.described import described_store

TINY = {
    "dims": {"channel": 3, "height": 2, "width": 2, "action_dim": 2, "state_dim": 3, "text_dim": 4},
    "actions_per_frame": 2,
    "text_tokens": 4,
    "fields": ["condition_latents", "action_mask", "state", "proprio_context_frames"],
    "episodes": [{"count": 3, "frames": [3, 7]}, {"count": 2, "frames": [9, 9], "task": "long"}],
}


def write(tmp_path: Path, **changes: object) -> str:
    path = tmp_path / "data.json"
    path.write_text(json.dumps(TINY | changes))
    return str(path)


def test_lengths_lie_evenly_between_the_shortest_and_the_longest(tmp_path):
    store = described_store(write(tmp_path))
    assert store.index.extents["video_latents"].tolist() == [3, 5, 7, 9, 9]
    assert store.index.extents["actions"].tolist() == [6, 10, 14, 18, 18]
    assert store.index.tasks.tolist() == ["any"] * 3 + ["long"] * 2


def test_it_has_the_index_of_a_store_of_these_lengths(tmp_path):
    store = described_store(write(tmp_path))
    real = open_store(write_tiny_store(tmp_path / "store", lengths=(3, 5, 7, 9, 9)))
    for name in BY_NAME:
        np.testing.assert_array_equal(store.index.extents[name], real.index.extents[name], err_msg=name)
    assert (store.manifest.dims, store.manifest.units) == (real.manifest.dims, real.manifest.units)


@pytest.mark.parametrize("frames", [None, (1, 4)])
def test_samples_are_zeros_that_a_run_accepts(tmp_path, frames):
    store = described_store(write(tmp_path))
    arrays = store.read(1, frames=frames)
    validate_sample(arrays, store.manifest, sample_id="any")
    assert arrays["video_latents"].shape == (3, 5 if frames is None else 3, 2, 2)
    assert store.text("anything").shape == (4, 4)


def test_it_crosses_to_a_worker(tmp_path):
    store = pickle.loads(pickle.dumps(described_store(write(tmp_path))))
    assert len(store) == 5
    assert store.read(0)["actions"].shape == (6, 2)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"episode": []}, "'episode': is no key here"),
        ({"episodes": [{"count": 1, "frames": [3, 4], "frame": 1}]}, "'frame': is no key here"),
        ({"episodes": []}, "at least one group"),
        ({"episodes": [{"count": 1, "frames": [4, 3]}]}, r"frames \[shortest, longest\]"),
        ({"episodes": [{"count": 1, "frames": [1, 4]}]}, "at least 2 are needed"),
        ({"fields": ["proprio_context_state"]}, "fields = 'proprio_context_state'"),
        ({"actions_per_frame": "2"}, "actions_per_frame = '2'"),
        ({"dims": TINY["dims"] | {"text_dim": None}}, "text_dim"),
    ],
)
def test_what_no_store_can_hold_is_refused_by_name(tmp_path, changes, said):
    with pytest.raises(InputError, match=said):
        described_store(write(tmp_path, **changes))


def test_a_missing_file_and_one_that_is_no_json(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        described_store(str(tmp_path / "absent.json"))
    (tmp_path / "data.json").write_text("{")
    with pytest.raises(InputError, match="must be JSON"):
        described_store(str(tmp_path / "data.json"))
