"""Rows: the ranges of a laid-out row are exactly its samples' own matrices, and nothing between samples."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

from tests.sequence.geometries import random_geometries
from wam_jax.errors import InputError
from wam_jax.sequence import SequenceGeometry, dense_visibility, text_visibility
from wam_jax.sequence.layout import RowConstants, RowSample, build_row, text_keys
from wam_jax.sequence.ranges import run_table
from wam_jax.sequence.rung import Rung, most_runs
from wam_jax.sequence.tiling import Alignment, Target, Tiling, round_up

P, A = 2, 3
NONE = Alignment()
TILES_OF_16 = Tiling(
    num_heads=2, head_dim=8, dtype="float32", implementation="tiled", target=Target("cpu"), alignment=16
)


def _samples(count: int, *, seed: int) -> list[RowSample]:
    rng = np.random.default_rng(seed)
    geometries = random_geometries(
        count,
        seed=seed,
        video_tokens_per_frame=P,
        actions_per_frame=A,
        num_frames=5,
        singleton_frame=None,
        action_valid=None,
    )
    return [
        RowSample(geometry, int(rng.integers(0, 9)), *(int(n) for n in rng.integers(0, 4, 2)), bool(rng.integers(0, 2)))
        for geometry in geometries
    ]


def _rung(samples: Sequence[RowSample | None], alignment: Alignment = NONE) -> Rung:
    count = len(samples)
    video, action = round_up(14, alignment.video_frames), round_up(12, alignment.action_frames)
    return Rung(
        samples=count,
        video_slot_frames=7,
        action_slot_frames=6,
        video_frames=video * count,
        action_frames=action * count,
        text_keys=round_up(4, alignment.keys) * count,
        proprio_keys=round_up(4, alignment.keys) * count,
        runs=most_runs(video * count, action * count),
    )


def _constants(*, packed: bool, tiling: Tiling | None = None) -> RowConstants:
    return RowConstants(
        video_tokens_per_frame=P,
        actions_per_frame=A,
        ranges=5,
        frame_axis=8,
        packed=packed,
        mode_token=True,
        tiling=tiling,
    )


def _expand(ranges: np.ndarray, runs: np.ndarray, keys: int) -> np.ndarray:
    bounds, key = ranges[runs], np.arange(keys)
    return ((key >= bounds[..., 0, None]) & (key < bounds[..., 1, None])).any(1)


def _token_rows(layout, sample: int, geometry: SequenceGeometry, rung: Rung) -> np.ndarray:
    """Row tokens of a sample in [VN, VC, AN, AC] order."""
    video = layout.video_slot.reshape(rung.samples, 2, -1)[sample, :, : geometry.num_video_frames].ravel()
    action = layout.action_slot.reshape(rung.samples, 2, -1)[sample, :, : geometry.num_frames].ravel()
    video_tokens = video[:, None] * P + np.arange(P)
    action_tokens = rung.video_frames * P + action[:, None] * A + np.arange(A)
    return np.concatenate([video_tokens.ravel(), action_tokens.ravel()])


@pytest.mark.parametrize("tiling", [None, TILES_OF_16])
@pytest.mark.parametrize("packed", [True, False])
def test_a_row_expands_to_its_samples_own_matrices(packed, tiling):
    constants = _constants(packed=packed, tiling=tiling)
    for seed in range(40):
        samples = _samples(3, seed=seed)
        rung = _rung(samples, constants.alignment)
        layout = build_row(samples, rung, constants)
        runs = np.concatenate([np.repeat(layout.video_run, P), np.repeat(layout.action_run, A)])
        matrix = _expand(layout.run_ranges, runs, len(layout.key_valid)) & layout.key_valid
        for slot, sample in enumerate(samples):
            rows = _token_rows(layout, slot, sample.geometry, rung)
            np.testing.assert_array_equal(matrix[np.ix_(rows, rows)], dense_visibility(sample.geometry))
            matrix[np.ix_(rows, rows)] = False
        assert not matrix.any()


def test_text_ranges_expand_to_each_samples_text_matrix():
    samples = _samples(3, seed=5)
    rung = _rung(samples)
    layout = build_row(samples, rung, _constants(packed=True))
    keys = rung.text_keys + rung.proprio_keys + rung.samples
    video = _expand(layout.text_run_ranges, layout.video_text_run, keys)
    action = _expand(layout.text_run_ranges, layout.action_text_run, keys)
    for slot, (sample, first) in enumerate(zip(samples, text_keys(samples, rung, NONE), strict=True)):
        counts = sample.num_text, sample.num_proprio, sample.mode_token
        own = np.r_[first.text : first.text + counts[0], first.proprio : first.proprio + counts[1], first.mode]
        own = own[: sum(counts)]
        for stream, matrix, slots, tokens in (
            ("video", video, layout.video_slot, P),
            ("action", action, layout.action_slot, A),
        ):
            frames = slots.reshape(3, -1)[slot]
            frames = frames[frames >= 0]
            expected = text_visibility(sample.geometry, stream, *counts)[::tokens]
            np.testing.assert_array_equal(matrix[np.ix_(frames, own)], expected)
            assert matrix[frames].sum() == expected.sum()


@pytest.mark.parametrize("packed", [True, False])
def test_source_and_slot_are_inverse(packed):
    samples = _samples(3, seed=2)
    layout = build_row(samples, _rung(samples), _constants(packed=packed))
    for source, slot in ((layout.video_source, layout.video_slot), (layout.action_source, layout.action_slot)):
        used = np.flatnonzero(source >= 0)
        np.testing.assert_array_equal(slot[source[used]], used)
        assert (slot >= 0).sum() == len(used)


def test_packed_samples_lie_back_to_back():
    samples = _samples(3, seed=3)
    layout = build_row(samples, _rung(samples), _constants(packed=True))
    used = sum(2 * s.geometry.num_video_frames for s in samples)
    assert (layout.video_source[:used] >= 0).all()
    assert (layout.video_source[used:] == -1).all()


def test_an_aligned_sample_begins_at_a_tile_in_every_buffer():
    constants = _constants(packed=True, tiling=TILES_OF_16)
    samples = _samples(4, seed=3)
    rung = _rung(samples, constants.alignment)
    layout = build_row(samples, rung, constants)
    for slots, tokens in ((layout.video_slot, P), (layout.action_slot, A)):
        assert not (slots.reshape(4, 2, -1)[:, 0, 0] * tokens % 16).any()
    assert rung.video_frames * P % 16 == 0
    keys = text_keys(samples, rung, constants.alignment)
    assert not any(first.text % 16 or first.proprio % 16 for first in keys)


def test_positions_are_the_samples_own():
    sample = _samples(1, seed=4)[0]
    alone = build_row([sample], _rung([sample]), _constants(packed=True))
    pair = [*_samples(1, seed=9), sample]
    both = build_row(pair, _rung(pair), _constants(packed=True))
    mine = both.video_slot.reshape(2, -1)[1]
    first = alone.video_slot[alone.video_slot >= 0]
    np.testing.assert_array_equal(both.video_phase[mine[mine >= 0]], alone.video_phase[first])


def test_an_empty_slot_leaves_its_frames_in_the_empty_run():
    sample = _samples(1, seed=4)[0]
    layout = build_row([None, sample], _rung([None, sample]), _constants(packed=False))
    assert (layout.video_run[:14] == 0).all()
    assert (layout.run_ranges[0] == 0).all()


@pytest.mark.parametrize("size", ["video_frames", "action_frames", "text_keys", "runs", "video_slot_frames"])
def test_a_rung_too_small_is_refused_by_name(size):
    sample = RowSample(_samples(1, seed=0)[0].geometry, num_text=3)
    fields = vars(_rung([sample])) | {size: 1}
    with pytest.raises(InputError, match=rf"rung\.{size} = 1"):
        build_row([sample], Rung(**fields), _constants(packed=True))


def test_more_ranges_than_the_budget_are_refused_and_never_cut():
    geometry = next(g for g in random_geometries(500, seed=1, prefix_frames=1) if run_table(g).num_ranges == 5)
    sample = RowSample(dataclasses.replace(geometry, video_tokens_per_frame=P, actions_per_frame=A, action_valid=None))
    rung = dataclasses.replace(
        _rung([sample]), video_slot_frames=12, action_slot_frames=11, video_frames=24, action_frames=22
    )
    assert build_row([sample], rung, _constants(packed=True)).run_ranges.shape[1] == 5
    with pytest.raises(InputError, match=r"rung\.ranges = 4: these samples need 5"):
        build_row([sample], rung, dataclasses.replace(_constants(packed=True), ranges=4))
