"""The two geometry laws against a plain restatement, and their ends."""

import math

import numpy as np
import pytest

from wam_jax.config.schema import SampleConstructionConfig
from wam_jax.data.drawing.geometry import GeometryLaw, Words, geometry_law
from wam_jax.errors import InputError
from wam_jax.keys import Phase, Purpose, draw_words, uniform

COUNT = 400
FRAMES = np.random.default_rng(0).integers(2, 30, COUNT)


def words(purpose: Purpose) -> np.ndarray:
    return draw_words(7, Phase.TRAIN, 0, purpose, 0, COUNT)[:, 0]


def constant(value: int) -> Words:
    """Words that are all the lowest (0) or all the highest (2**64 - 1) there are."""
    return lambda _: np.full(COUNT, value, np.uint64)


def law(*, full: bool, randomize: bool = True, chunk: int = 5, window: int = 9, fixed_history: int = 1) -> GeometryLaw:
    return GeometryLaw(
        full_segment=full, randomize=randomize, chunk_size=chunk, window_size=window, fixed_history=fixed_history
    )


def draw(rules: GeometryLaw, source: Words = words) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    chunk, window = rules.chunk(FRAMES, source), rules.window(FRAMES, source)
    return chunk, window, rules.history(FRAMES, chunk, window, source)


def pick(purpose: Purpose, position: int, choices: range) -> int:
    return choices[int(uniform(words(purpose))[position] * len(choices))]


def test_full_segments_equal_the_restated_law():
    chunk, window, history = draw(law(full=True))
    for i, frames in enumerate(FRAMES):
        c = pick(Purpose.CHUNK_SIZE, i, range(1, 6))
        k = pick(Purpose.HISTORY, i, range(1, max(1, frames // c - 1) + 1))
        assert chunk[i] == min(c, frames)
        assert window[i] == pick(Purpose.WINDOW_SIZE, i, range(4, 10))
        assert history[i] == max(1, min(k * c, frames - c))


def test_uniform_segments_equal_the_restated_law():
    chunk, window, history = draw(law(full=False))
    for i, frames in enumerate(FRAMES):
        c = pick(Purpose.CHUNK_SIZE, i, range(1, min(5, frames) + 1))
        w = pick(Purpose.WINDOW_SIZE, i, range(4, 10))
        assert (chunk[i], window[i]) == (c, w)
        assert history[i] == min(max(math.ceil(w / 2) * c, 1), max(1, frames - c))


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("source", [constant(0), constant(2**64 - 1), words])
def test_the_last_frame_is_always_supervised_and_the_first_never(full, source):
    chunk, window, history = draw(law(full=full, chunk=40, window=64), source)
    assert np.all((history >= 1) & (history < FRAMES))
    assert np.all((chunk >= 1) & (chunk <= FRAMES))
    assert np.all((window >= 4) & (window <= 64))


@pytest.mark.parametrize("full", [True, False])
def test_the_largest_values_are_reached(full):
    chunk, window, _ = draw(law(full=full), constant(2**64 - 1))
    assert np.array_equal(chunk, np.minimum(5, FRAMES))
    assert np.all(window == 9)


def test_a_small_window_is_not_drawn():
    assert np.all(draw(law(full=True, window=3))[1] == 3)


def test_fixed_geometry_draws_nothing():
    chunk, window, history = draw(law(full=True, randomize=False, fixed_history=1), constant(2**64 - 1))
    assert np.array_equal(chunk, np.minimum(5, FRAMES))
    assert np.all(window == 9)
    assert np.all(history == 1)
    assert np.array_equal(
        draw(law(full=False, randomize=False))[2], np.maximum(1, np.minimum(25, FRAMES - np.minimum(5, FRAMES)))
    )


@pytest.mark.parametrize("frames", [0, 5])
def test_a_fixed_history_must_fit_the_shortest_episode(frames):
    config = SampleConstructionConfig(randomize_geometry=False)
    with pytest.raises(InputError, match=rf"policy\.video_prefix_frames = {frames}: .* 5 frames"):
        geometry_law(config, video_prefix_frames=frames, shortest=5)
