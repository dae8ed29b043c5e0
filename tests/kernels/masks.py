"""Masks of every kind, as ranges: random, degenerate, and the real laws of packed samples."""

import numpy as np

from wam_jax.sequence import SequenceGeometry
from wam_jax.sequence.visibility import dense_visibility
from wam_jax.sequence.visibility import key_valid as slots_valid


def random_ranges(rng: np.random.Generator, rows: int, queries: int, keys: int, most: int) -> np.ndarray:
    """0 to `most` disjoint ascending ranges for each stretch of a few queries."""
    ranges = np.zeros((rows, queries, most, 2), np.int32)
    for row in range(rows):
        at = 0
        while at < queries:
            stop = at + int(rng.integers(1, 20))
            count = int(rng.integers(0, most + 1))
            ends = np.sort(rng.choice(keys + 1, 2 * count, replace=False)).reshape(count, 2)
            ranges[row, at:stop, :count] = ends
            at = stop
    return ranges


def segments(lengths: list[int], tokens: int) -> np.ndarray:
    """Samples back to back, each token seeing its own sample; the tail sees nothing. `int32[1, tokens, 1, 2]`."""
    ranges = np.zeros((1, tokens, 1, 2), np.int32)
    at = 0
    for length in lengths:
        ranges[0, at : at + length, 0] = at, at + length
        at += length
    return ranges


def single_keys(rng: np.random.Generator, queries: int, keys: int) -> np.ndarray:
    """Every query sees one key."""
    first = rng.integers(0, keys, queries)
    return np.stack([first, first + 1], -1).astype(np.int32)[None, :, None]


def holes(queries: int, keys: int) -> np.ndarray:
    """Every third stretch of 20 queries sees nothing, and the middle third of the keys is seen by nobody."""
    ranges = np.tile(np.array([[0, keys // 3], [2 * keys // 3, keys]], np.int32), (1, queries, 1, 1))
    ranges[0, np.arange(queries) // 20 % 3 == 1] = 0
    return ranges


def clean_and_noisy(chunks: int, chunk: int, samples: int) -> np.ndarray:
    """Samples of clean tokens, then their noisy copies. Whole chunks are seen: tiles are full, and not symmetric."""
    half = chunks * chunk
    ranges = np.zeros((1, 2 * half * samples, 2, 2), np.int32)
    for token in range(2 * half * samples):
        base, inside = token // (2 * half) * 2 * half, token % (2 * half)
        past = inside % half // chunk * chunk
        if inside < half:
            ranges[0, token, 0] = base, base + past + chunk
        else:
            ranges[0, token] = (base, base + past), (base + half + past, base + half + past + chunk)
    return ranges


def law(rng: np.random.Generator, program: str, tokens: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Samples of one program packed as a row packs them (all video, then all actions): ranges and valid bits.

    The samples' own laws are dense matrices of `wam_jax.sequence`; ranges are read off the packed matrix.
    """
    geometries = [_geometry(rng, program) for _ in range(3)]
    dense = np.zeros((tokens, tokens), bool)
    valid = np.zeros(tokens, bool)
    video = action = 0
    starts = np.cumsum([0] + [_video_tokens(g) for g in geometries])
    for geometry, video in zip(geometries, starts[:-1], strict=True):
        size = _video_tokens(geometry)
        seen, bits = dense_visibility(geometry), slots_valid(geometry)
        actions = len(seen) - size
        place = np.concatenate([video + np.arange(size), starts[-1] + action + np.arange(actions)])
        dense[np.ix_(place, place)] = seen
        valid[place] = bits
        action += actions
    return ranges_of(dense | ~valid, dense, most), valid[None]


def _geometry(rng: np.random.Generator, program: str) -> SequenceGeometry:
    frames = int(rng.integers(3, 7))
    return SequenceGeometry(
        num_frames=frames,
        video_tokens_per_frame=4,
        actions_per_frame=2,
        chunk_size=int(rng.integers(1, 4)),
        window_size=int(rng.integers(2, 12)),
        program=program,
        history=str(rng.choice(["full", "video_only"])),
        prefix_frames=int(rng.integers(0, 2)),
        chunk_origin=int(rng.integers(0, frames)),
        singleton_frame=int(rng.integers(0, frames)) if rng.random() < 0.4 else None,
        boundary_only=bool(rng.random() < 0.3),
        action_valid=rng.random(frames * 2) < 0.8,
    )


def _video_tokens(geometry: SequenceGeometry) -> int:
    return 2 * geometry.num_video_frames * geometry.video_tokens_per_frame


def ranges_of(bridged: np.ndarray, dense: np.ndarray, most: int) -> np.ndarray:
    """The ranges of a matrix: `int32[1, tokens, most, 2]`. Gaps of keys that `bridged` allows do not split a range."""
    ranges = np.zeros((1, len(dense), most, 2), np.int32)
    for query, row in enumerate(dense):
        seen = np.flatnonzero(row)
        if not len(seen):
            continue
        breaks = [i for i in range(1, len(seen)) if not bridged[query, seen[i - 1] : seen[i]].all()]
        firsts = seen[[0, *breaks]]
        lasts = seen[[*(b - 1 for b in breaks), len(seen) - 1]] + 1
        ranges[0, query, : len(firsts)] = np.stack([firsts, lasts], -1)
    return ranges
