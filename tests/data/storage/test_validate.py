"""What a sample and an index must be: one case per thing that can be wrong."""

import ml_dtypes
import numpy as np
import pytest

from tests.data.storage.test_manifest import MANIFEST
from tests.support.stores import rewrite_index, tiny_arrays, write_tiny_store
from wam_jax.data.storage.manifest import Dims
from wam_jax.data.storage.store import open_store
from wam_jax.data.storage.validate import check_index, validate_sample
from wam_jax.errors import InputError


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    return open_store(write_tiny_store(tmp_path_factory.mktemp("stores") / "store")).manifest


def check_valid(manifest, **changes):
    arrays = {name: array for name, array in (tiny_arrays(3) | changes).items() if array is not None}
    validate_sample(arrays, manifest, sample_id="x")


def test_a_sample_may_lack_every_optional_field(manifest):
    optional = ["condition_latents", "action_mask", "state", "proprio_context_frames"]
    check_valid(manifest, **dict.fromkeys(optional))


def test_all_float_types_are_accepted(manifest):
    check_valid(manifest, video_latents=tiny_arrays(3)["video_latents"].astype(ml_dtypes.bfloat16))


def test_text_and_chunks_have_any_length(manifest):
    check_valid(manifest, text_context=np.ones((9, 4), np.float32), proprio_context_state=np.ones((1, 3), np.float32))


def nonfinite(value):
    latents = tiny_arrays(3)["video_latents"].copy()
    latents[1, 2, 0, 1] = value
    return latents


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("actions", None, "actions = None: is missing and required"),
        ("video_latents", None, "video_latents = None: is missing"),
        ("depth", np.ones(3), "is no field; known are video_latents"),
        ("actions", np.ones(6, np.float32), r"\(6,\): axes \[slot, action_dim\]"),
        ("actions", np.ones((6, 3), np.float32), "axis action_dim is 2 in this store"),
        ("actions", np.ones((7, 2), np.float32), "actions = 7: 6 rows for 3 latent frames: must be 2 x latent frames"),
        ("actions", np.ones((6, 2), int), "'int64': one of float16, bfloat16, float32"),
        ("state", np.ones((8, 3), np.float32), r"state = 8: 9 rows .* 1 \+ 4 x \(latent frames - 1\)"),
        ("condition_latents", np.ones((3, 2, 2, 2), np.float32), "condition_latents = 2: 3 rows"),
        ("action_mask", np.ones((6, 1), np.float32), "axis action_dim is 2"),
        ("action_mask", np.full((6, 2), 0.5, np.float32), r"action_mask = 0.5: only 0 and 1"),
        ("state_mask", np.ones((5, 3), np.float32), "state_mask = 5: 9 rows"),
        ("proprio_context_state_mask", np.ones((1, 3), np.float32), "a mask of proprio_context_state, which is absent"),
        ("video_latents", nonfinite(np.nan), r"video_latents = nan: not finite at \[1, 2, 0, 1\]"),
        ("video_latents", nonfinite(-np.inf), r"video_latents = -inf: not finite"),
    ],
)
def test_what_is_wrong_is_named(manifest, name, array, message):
    with pytest.raises(InputError, match=rf"sample x: {name}.*") as error:
        check_valid(manifest, **{name: array})
    assert error.match(message)


def test_masks_of_free_length_follow_their_field(manifest):
    two, three = np.ones((2, 3), np.float32), np.ones((3, 3), np.float32)
    with pytest.raises(InputError, match=r"the shape of proprio_context_state, \(2, 3\)"):
        check_valid(manifest, proprio_context_state=two, proprio_context_state_mask=three)


def test_one_frame_is_no_sequence(manifest):
    with pytest.raises(InputError, match="video_latents = 1: at least 2 latent frames"):
        validate_sample(tiny_arrays(1), manifest, sample_id="x")


def test_a_store_without_state_takes_none():
    assert Dims(channel=1, height=1, width=1, action_dim=1).state_dim is None
    with pytest.raises(InputError, match="axis state_dim is None"):
        validate_sample({**_fitting(), "state": np.ones((5, 2), np.float32)}, MANIFEST, sample_id="x")


def _fitting():
    return {"video_latents": np.ones((48, 2, 8, 8), np.float16), "actions": np.ones((8, 4), np.float32)}


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("extent_video_latents", 1, "sample ep1: video_latents = 1: latent frames; at least 2"),
        ("extent_video_latents", None, "sample ep1: video_latents = None: is missing and required"),
        ("extent_actions", None, "sample ep1: actions = None: is missing and required"),
        ("extent_actions", 9, "sample ep1: actions = 9: must be 2 x latent frames"),
        ("extent_condition_latents", 4, "sample ep1: condition_latents = 4: must equal the latent frames"),
        ("extent_state", 16, "sample ep1: state = 16: must be 1"),
        ("extent_action_mask", 9, "sample ep1: action_mask = 9: must be 2 x"),
        ("extent_state_mask", 16, "sample ep1: state_mask = 16: must be 1"),
        ("extent_proprio_context_state_mask", 3, "sample ep1: proprio_context_state_mask = 3: must equal the length"),
    ],
)
def test_the_index_alone_tells(tmp_path, column, value, message):
    path = write_tiny_store(tmp_path / "store")
    rewrite_index(path, column, 1, value)
    store = open_store(path, check=False)
    with pytest.raises(InputError, match=message):
        check_index(store.index, store.manifest)


def test_the_first_of_several_is_named_and_all_are_counted(tmp_path):
    path = write_tiny_store(tmp_path / "store")
    for episode in (1, 3):
        rewrite_index(path, "extent_actions", episode, 3)
    with pytest.raises(InputError, match=r"sample ep1: actions = 3: .*\(2 such episodes\)"):
        open_store(path)
