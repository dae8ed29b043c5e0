"""The one law of randomness: every random number is a function of (seed, phase, epoch, position, purpose, frame).

Nothing depends on the slot, the batch, the padding, the worker or the number of devices, so that the same draw is the
same draw everywhere and a resumed run replays it. The host draws what the planner decides (`draw_words`, counter-based,
any position at once); the device draws noise and timesteps (`frame_keys`, threefry). Frames are those of the dataset:
the frame plus one is folded in, so that a prefix frame is 0.
"""

from collections.abc import Callable
from enum import IntEnum

import jax
import jax.numpy as jnp
import numpy as np

_MAX_SEED = 2**32

_Function = Callable[..., jax.Array]


class Phase(IntEnum):
    """Which stream of draws a position belongs to."""

    TRAIN = 0
    VALIDATION = 1


class Purpose(IntEnum):
    """What a random number decides. Values are part of the stream: never renumber, only append."""

    ORDER = 0
    ITEM = 1
    SEGMENT_LENGTH = 2
    SEGMENT_START = 3
    CHUNK_SIZE = 4
    WINDOW_SIZE = 5
    HISTORY = 6
    ROUTE = 7
    TEXT_DROPOUT = 8
    VIDEO_TIMESTEP = 16
    ACTION_TIMESTEP = 17
    SHARED_TIMESTEP = 18
    VIDEO_NOISE = 19
    ACTION_NOISE = 20
    CONDITION_DECISION = 21
    CONDITION_TIMESTEP = 22
    CONDITION_NOISE = 23


def check_seed(seed: int) -> int:
    """Returns `seed`; raises ValueError outside [0, 2**32), where threefry would drop its high bits in silence."""
    if not 0 <= seed < _MAX_SEED:
        raise ValueError(f"seed must be in [0, {_MAX_SEED}), got {seed}")
    return seed


def _bits(seed: int, phase: Phase, epoch: int, purpose: Purpose) -> np.random.Philox:
    return np.random.Philox(key=np.array([check_seed(seed) << 8 | purpose, epoch << 8 | phase], np.uint64))


def draw_words(seed: int, phase: Phase, epoch: int, purpose: Purpose, start: int, count: int) -> np.ndarray:
    """Random words of `count` consecutive positions from `start` on: uint64[count, 4].

    Philox is counter-based and one counter yields four words, so any stretch of positions costs the same.
    """
    return _bits(seed, phase, epoch, purpose).advance(start).random_raw(4 * count).reshape(count, 4)


def uniform(words: np.ndarray) -> np.ndarray:
    """Maps random words to float64 in [0, 1)."""
    return (words >> np.uint64(11)) * 2.0**-53


def integers(words: np.ndarray, low: np.ndarray | int, high: np.ndarray | int) -> np.ndarray:
    """Maps random words to int64 in [low, high), elementwise; the bias is below (high - low) * 2**-53."""
    span = np.asarray(high, np.int64) - low
    return low + np.minimum((uniform(words) * span).astype(np.int64), span - 1)


def epoch_permutation(seed: int, phase: Phase, epoch: int, size: int) -> np.ndarray:
    """The order of `size` items in one epoch: int64[size]."""
    return np.random.Generator(_bits(seed, phase, epoch, Purpose.ORDER)).permutation(size)


def draw_keys(seed: jax.Array, draw: jax.Array) -> jax.Array:
    """Keys of draws: seed uint32[] or [...], draw uint32[..., 3] of (phase, epoch, position) to keys[...]."""

    def one(seed: jax.Array, parts: jax.Array) -> jax.Array:
        key = jax.random.key(seed)
        for part in parts:
            key = jax.random.fold_in(key, part)
        return key

    return _nest(one, draw.ndim - 1)(jnp.broadcast_to(seed, draw.shape[:-1]), draw)


def purpose_keys(keys: jax.Array, purpose: Purpose) -> jax.Array:
    """Keys of one purpose of each draw: keys[...] to keys[...]."""
    return _over(lambda key: jax.random.fold_in(key, int(purpose)), keys, keys.ndim)


def frame_keys(keys: jax.Array, frames: jax.Array) -> jax.Array:
    """Keys of frames: keys[...], dataset frames int32[..., T] (-1 for a prefix frame) to keys[..., T]."""
    of_draw = jax.vmap(jax.random.fold_in, (None, 0))
    folded = _nest(of_draw, keys.ndim)
    return folded(keys, jnp.asarray(frames + 1, jnp.uint32))


def _over(function: _Function, values: jax.Array, dims: int) -> jax.Array:
    return _nest(function, dims)(values)


def _nest(function: _Function, dims: int) -> _Function:
    for _ in range(dims):
        function = jax.vmap(function)
    return function


def normal(keys: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Standard normal noise, one block of `shape` a key: keys[...] to float32[..., *shape]."""
    return _over(lambda key: jax.random.normal(key, shape, jnp.float32), keys, keys.ndim)


def unit(keys: jax.Array) -> jax.Array:
    """One uniform number in [0, 1) a key: keys[...] to float32[...]."""
    return _over(lambda key: jax.random.uniform(key, dtype=jnp.float32), keys, keys.ndim)
