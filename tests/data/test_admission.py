"""Everything the index shows to be impossible is refused before a payload is read."""

import dataclasses
from typing import Any

import pytest

from tests.data.indexes import make_index, make_law, make_manifest
from tests.support.runs import SEGMENTS_OF_3, tiny_config
from wam_jax.data.admission import check_admission
from wam_jax.data.storage.manifest import Dims
from wam_jax.errors import InputError

PADDED = {"mode": "padded"}
CHUNKED = {"proprio_context_mode": "per_chunk_additive"}
ALL_OF_IT = {"randomize_geometry": False, "chunk_size": 2}


def check(frames=(3, 3), *, extents=None, manifest=None, microbatch: int = 2, **rooms) -> None:
    config, index = tiny_config(**rooms), make_index(frames, extents=extents)
    check_admission(config, manifest or make_manifest(), index, make_law(config, index), microbatch=microbatch)


def check_refused(match: str, **arguments) -> None:
    with pytest.raises(InputError, match=match):
        check(**arguments)


def test_equal_episodes_are_admitted():
    check(extents={"condition_latents": [3, 3], "text_context": [2, 2]})


def test_strict_names_the_episodes_of_unequal_length():
    check_refused(r"mode = 'strict': needs equal latent frames .*ep0: 3, ep2: 5; cut equal segments", frames=[3, 3, 5])


def test_equal_segments_of_unequal_episodes_are_rectangular():
    check([3, 9, 5], construction=SEGMENTS_OF_3)


def test_an_episode_shorter_than_the_segment_is_not_rectangular():
    check_refused(r"needs equal latent frames .*ep1: 3, ep0: 2;", frames=[2, 3, 5], construction=SEGMENTS_OF_3)


def test_random_lengths_are_not_rectangular():
    lengths = SEGMENTS_OF_3 | {"min_segment_frames": 2, "randomize_segment_length": True}
    check_refused(r"needs equal latent frames .*ep0: random", construction=lengths)


@pytest.mark.parametrize(
    ("field", "values", "match"),
    [
        ("text_context", [2, 4], r"equal text tokens .*ep0: 2, ep1: 4"),
        ("text_context", [2, None], r"equal text tokens .*ep0: 2, ep1: 5"),
        ("condition_latents", [3, None], r"equal condition latents .*ep1: absent, ep0: present"),
    ],
)
def test_strict_wants_optional_fields_alike(field, values, match):
    check_refused(match, extents={field: values})


@pytest.mark.parametrize("free", [{"microbatch": 1}, {"batching": PADDED}])
def test_one_sample_a_row_and_padded_rows_may_be_unequal(free):
    check([3, 7], extents={"text_context": [2, 4], "condition_latents": [3, None]}, **free)


def test_unused_condition_latents_may_differ():
    check(extents={"condition_latents": [3, None]}, policy={"use_condition_latents": False})


PREFIX = CHUNKED | {"sequence_contract": "prefix_frame"}
CONTEXT = CHUNKED | {"sequence_contract": "context_frame"}


@pytest.mark.parametrize(
    "policy",
    [
        {"require_condition_latents": True},
        {"context_condition_latent_source": "single_frame_condition_latent"},
        PREFIX,
    ],
)
def test_needed_condition_latents(policy):
    match = r"sample ep1: condition_latents = None: is missing"
    check_refused(match, policy=policy, microbatch=1, extents={"condition_latents": [3, None]})


@pytest.mark.parametrize("program", ["forward_dynamics", "inverse_dynamics"])
def test_conditional_samples_need_no_condition_latents(program):
    check(policy=PREFIX | {"program": program}, extents={"state": [9, 9]})


@pytest.mark.parametrize("policy", [PREFIX, CONTEXT])
def test_contracts_need_a_state_at_every_frame(policy):
    name = policy["sequence_contract"]
    extents = {"condition_latents": [3, 3], "state": [9, None], "proprio_context_state": [None, 2]}
    match = rf"sample ep1: proprioception = None: .*'{name}' needs one of proprio_context_frames, state$"
    check_refused(match, policy=policy, construction=ALL_OF_IT, extents=extents)


def test_states_per_chunk_do_not_fit_samples_that_begin_behind_their_history():
    rooms: dict[str, Any] = {
        "policy": CHUNKED | {"program": "forward_dynamics"},
        "extents": {"proprio_context_state": [2, 2]},
    }
    check(construction=ALL_OF_IT, **rooms)
    match = r"sample ep0: proprio_context_state = 2: states per chunk need"
    check_refused(match, construction=ALL_OF_IT | {"conditional_start": "history"}, **rooms)


@pytest.mark.parametrize("text", [None, 3])
def test_negative_text_is_as_long_as_the_text(text):
    match = r"sample ep0: negative_text_context = 2: must have as many"
    check_refused(match, extents={"text_context": [text, 2], "negative_text_context": [2, 2]})


def test_proprioception_must_come_from_somewhere():
    match = r"sample ep1: proprioception = None: .*'per_chunk_additive' needs one of proprio_context_frames, state"
    check_refused(match, policy=CHUNKED, extents={"state": [9, None]})
    check(policy=CHUNKED, extents={"state": [9, None], "proprio_context_frames": [None, 3]})


@pytest.mark.parametrize(
    ("chunks", "construction"),
    [([2, 3], ALL_OF_IT), ([2, 2], {"chunk_size": 2}), ([2, 2], SEGMENTS_OF_3 | {"randomize_geometry": False})],
)
def test_states_per_chunk_must_fit_the_chunks(chunks, construction):
    match = r"sample ep[01]: proprio_context_state = \d: states per chunk need"
    check_refused(match, policy=CHUNKED, construction=construction, extents={"proprio_context_state": chunks})


def test_states_per_chunk_that_fit_are_admitted():
    check(policy=CHUNKED, construction=ALL_OF_IT, extents={"proprio_context_state": [2, 2]})


@pytest.mark.parametrize(
    ("backbone", "dims", "match"),
    [
        ({"latent_channels": 48}, {}, r"backbone\.latent_channels = 48: the store's latents have 3"),
        ({"patch_size": (1, 2, 3)}, {}, r"backbone\.patch_size = \(1, 2, 3\): must divide .* 2 x 2"),
        ({"text_dim": 8}, {"text_dim": 4}, r"backbone\.text_dim = 8: the store's text vectors have 4"),
    ],
)
def test_sizes_of_the_store(backbone, dims, match):
    sizes = Dims(channel=3, height=2, width=2, action_dim=2, **dims)
    check_refused(match, backbone=backbone, manifest=dataclasses.replace(make_manifest(), dims=sizes))
