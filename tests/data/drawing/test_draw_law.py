"""Draws: a pure function of their position, whatever stretch they are asked for in."""

import dataclasses

import numpy as np
import pytest

from tests.data.indexes import equal, make_index, make_law
from tests.support.runs import tiny_config
from wam_jax.data.drawing.draws import concatenate
from wam_jax.data.drawing.samplers import Stretch
from wam_jax.keys import Phase
from wam_jax.sequence import Objective

RANDOM_LENGTHS = {
    "mode": "uniform_segment",
    "min_segment_frames": 3,
    "max_segment_frames": 9,
    "randomize_segment_length": True,
}
STATES = {"proprio_context_frames": [4, None, 17, None], "state": [None, 33, None, 21]}
INDEX = make_index([4, 9, 17, 6], extents={"text_context": [3, None, 0, 2], **STATES})
MODES = pytest.mark.parametrize("construction", [{}, RANDOM_LENGTHS, {"randomize_geometry": False}])


def draw(construction, start: int, count: int, *, epoch: int = 0, seed: int = 0, phase: Phase = Phase.TRAIN, **rooms):
    law = make_law(tiny_config(construction=construction, seed=seed, **rooms), INDEX, phase)
    items = (np.arange(start, start + count) * 7) % len(law.space)
    return law.draws(Stretch(epoch, start, count), items)


@MODES
def test_draws_do_not_depend_on_the_stretch_they_come_in(construction):
    whole = draw(construction, 0, 40, training={"num_steps": 1, "text_dropout": 0.5})
    parts = [draw(construction, at, n, training={"num_steps": 1, "text_dropout": 0.5}) for at, n in ((0, 1), (1, 39))]
    assert equal(concatenate(parts), whole)


@MODES
def test_segments_lie_in_their_episodes(construction):
    draws = draw(construction, 0, 200)
    frames = INDEX.extents["video_latents"][draws.episode]
    assert np.all((draws.segment_start >= 0) & (draws.segment_start + draws.num_frames <= frames))
    assert np.array_equal(draws.frame_shift, draws.segment_start)
    assert np.all((draws.history_frames >= 1) & (draws.history_frames < draws.num_frames))


@pytest.mark.parametrize("other", [{"seed": 1}, {"epoch": 1}, {"phase": Phase.VALIDATION}])
def test_seed_epoch_and_phase_draw_anew(other):
    assert not np.array_equal(draw({}, 0, 60).chunk_size, draw({}, 0, 60, **other).chunk_size)


def test_a_draw_says_what_its_noise_depends_on():
    draws = draw({}, 5, 3, epoch=2, phase=Phase.VALIDATION)
    assert draws.phase.tolist() == [1, 1, 1]
    assert draws.epoch.tolist() == [2, 2, 2]
    assert draws.position.tolist() == [5, 6, 7]


def test_text_tokens_come_from_the_index():
    draws = draw({}, 0, 40)
    assert np.array_equal(draws.num_text, np.array([3, 5, 0, 2])[draws.episode])


def test_text_is_dropped_at_the_configured_rate_and_never_in_validation():
    dropout = {"num_steps": 1, "text_dropout": 0.25}
    dropped = draw({}, 0, 8000, training=dropout).drop_text
    assert abs(dropped.mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 8000)
    assert not draw({}, 0, 800, training=dropout, phase=Phase.VALIDATION).drop_text.any()


def test_proprio_tokens_are_one_a_chunk_or_one_where_there_is_nothing_but_raw_states():
    draws = draw({}, 0, 60, policy={"program": "joint", "proprio_context_mode": "text_context_token"})
    per_chunk = np.isin(draws.episode, [0, 2])
    assert np.array_equal(draws.num_proprio[per_chunk], np.ceil(draws.num_frames / draws.chunk_size)[per_chunk])
    assert set(draws.num_proprio[~per_chunk]) == {1}
    assert not draw({}, 0, 60).num_proprio.any()


def test_the_default_contract_has_no_prefix_origin_or_singleton():
    draws = draw({}, 0, 3)
    assert draws.prefix_frames.tolist() == draws.chunk_origin.tolist() == [0, 0, 0]
    assert draws.singleton_frame.tolist() == [-1, -1, -1]
    assert draws.objective.tolist() == [Objective.JOINT] * 3


def test_padding_adds_empty_slots():
    draws = draw({}, 0, 3)
    padded = draws.padded(5)
    assert padded.present.tolist() == [True] * 3 + [False] * 2
    assert equal(padded[:3], draws)


def test_every_property_has_one_shape():
    draws = draw({}, 0, 12).reshape(2, 3, 2).transpose(0, 2, 1)
    assert {getattr(draws, field.name).shape for field in dataclasses.fields(draws)} == {(2, 2, 3)} == {draws.shape}
