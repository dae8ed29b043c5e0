"""Fitting the stand-in codec: principal components of a fixed sample of blocks of training video."""

from collections.abc import Callable, Sequence

import numpy as np

from wam_jax.data.encoders.codec import GROUP, KltCodec, blocks_of, pad_frames
from wam_jax.errors import InputError

MAX_BLOCKS = 20_000
_EVERY = 5  # Of neighbouring blocks one is enough; five shares no factor with the sides of a frame.


def fit_codec(
    lengths: Sequence[int], frames_of: Callable[[int], np.ndarray], *, patch: int, channels: int, seed: int = 0
) -> KltCodec:
    """Fits a codec to videos, reading one at a time.

    Args:
        lengths: raw frames of each video.
        frames_of: position to `[R, H, W, 3]` uint8; all videos have the same H and W.
        patch, channels: p and C.
        seed: of the choice of at most `MAX_BLOCKS` blocks.
    Raises:
        InputError: there are fewer blocks than channels, or C is more than a block has values.
    """
    blocks = _sample(lengths, frames_of, patch, seed)
    if not 0 < channels <= min(blocks.shape):
        raise InputError("channels", channels, f"1 to {min(blocks.shape)} for {len(blocks)} blocks of patch {patch}")
    block_mean = blocks.mean(axis=0)
    centred = blocks - block_mean
    _, vectors = np.linalg.eigh(centred.T @ centred / len(centred))
    basis = _signed(vectors[:, ::-1][:, :channels].T).astype(np.float16)
    coefficients = centred @ basis.astype(np.float32).T  # With the basis as it is kept, so that the scales fit it.
    return KltCodec(
        basis=np.ascontiguousarray(basis),
        block_mean=block_mean.astype(np.float32),
        mean=coefficients.mean(axis=0),
        std=coefficients.std(axis=0) + np.float32(1e-6),
    )


def _sample(lengths: Sequence[int], frames_of: Callable[[int], np.ndarray], patch: int, seed: int) -> np.ndarray:
    """Every fifth block of every video, thinned at random to `MAX_BLOCKS`: `[blocks, N]`, in random order."""
    height, width = frames_of(0).shape[1:3]
    cells = (height // patch) * (width // patch)
    counts = [-(-(1 + -(-(length - 1) // GROUP)) * cells // _EVERY) for length in lengths]
    ends = np.cumsum(counts)
    chosen = np.random.default_rng(seed).permutation(ends[-1])[:MAX_BLOCKS]
    sample = np.empty((len(chosen), GROUP * patch * patch * 3), np.float32)
    for video, end in enumerate(ends):
        wanted = np.flatnonzero((end - counts[video] <= chosen) & (chosen < end))
        if wanted.size:
            padded = pad_frames(frames_of(video))
            grouped = np.concatenate([np.repeat(padded[:1], GROUP, axis=0), padded[1:]])
            blocks = blocks_of(grouped, patch).reshape(-1, sample.shape[1])[::_EVERY]
            sample[wanted] = blocks[chosen[wanted] - (end - counts[video])]
    return sample


def _signed(rows: np.ndarray) -> np.ndarray:
    """The sign of a component is arbitrary: its largest entry is made positive."""
    largest = np.take_along_axis(rows, np.abs(rows).argmax(axis=1, keepdims=True), axis=1)
    return rows * np.where(largest < 0, -1, 1)
