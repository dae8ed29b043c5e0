"""The permutation between the frames of a row's samples and the frames of its buffers, one gather in each direction."""

import jax
import jax.numpy as jnp


@jax.custom_vjp
def permute_frames(frames: jax.Array, source: jax.Array, destination: jax.Array) -> jax.Array:
    """Moves frames: `out[r, i] = frames[r, source[r, i]]`, zeros where the source is -1.

    Args:
        frames: float[R, N, ...].
        source: int32[R, M], the frame each place of the result takes, each frame at most once.
        destination: int32[R, N], its inverse: the place each frame goes to, -1 for nowhere.

    Returns:
        float[R, M, ...]. The gradient is the same gather with the two maps exchanged, so nothing is ever scattered.
    """
    del destination
    return _take(frames, source)


def _forward(
    frames: jax.Array, source: jax.Array, destination: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return _take(frames, source), (source, destination)


def _backward(maps: tuple[jax.Array, jax.Array], gradient: jax.Array) -> tuple[jax.Array, None, None]:
    _, destination = maps
    return _take(gradient, destination), None, None


def _take(frames: jax.Array, index: jax.Array) -> jax.Array:
    trailing = (1,) * (frames.ndim - 2)
    rows = jnp.arange(frames.shape[0])[:, None]
    taken = frames[rows, jnp.maximum(index, 0)]
    return jnp.where((index >= 0).reshape(index.shape + trailing), taken, 0)


permute_frames.defvjp(_forward, _backward)
