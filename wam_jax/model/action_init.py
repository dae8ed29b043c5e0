"""How the action expert starts from the video expert's weights.

    random                     it does not
    video_weight_copy          time embedding, blocks and the head's table are copied; the experts must be alike
    video_weight_interpolate   the same parts, resized to the action expert's depth and widths

Never taken over: the embedding of actions, the head's projection, the text and the proprio projections.

Resizing is linear interpolation with aligned end points in float32, one axis after the other. A weight whose input axis
changed from m to n entries is multiplied by sqrt(m / n), which keeps the variance of what it computes; so are the
tables of blocks, not the head's. Six modulation vectors of a frame are one axis of 6 * width here, as in the reference.
A shallower expert takes the layers `round(i (Ls - 1) / (La - 1))`, half to even; a single layer is the last one.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from wam_jax.model.config import ActionInit

_PARTS = (("time_embedding",), ("blocks",), ("head", "modulation"))


def initialise_action_expert(params: dict[str, Any], mode: ActionInit) -> dict[str, Any]:
    """The parameters with the action expert's parts taken from the video expert as `mode` says; a new dict.

    Raises:
        ValueError: for `video_weight_copy` between unequal shapes, or an action expert deeper than the video expert.
    """
    if mode == "random":
        return params
    take = _copied if mode == "video_weight_copy" else resized

    def choose(path: Sequence[Any], leaf: jax.Array) -> jax.Array:
        names = tuple(str(entry.key) for entry in path)
        taken = any(names[: len(part)] == part for part in _PARTS)
        return take(names, _leaf(params["video_expert"], names), leaf) if taken else leaf

    return params | {"action_expert": jax.tree.map_with_path(choose, params["action_expert"])}


def resized(path: tuple[str, ...], source: jax.Array, like: jax.Array) -> jax.Array:
    """The video expert's leaf at `path` brought to the shape of the action expert's leaf `like`.

    Args:
        path: key names from the expert down, such as ("blocks", "feed_forward", "hidden", "kernel").
        source: the video expert's leaf.
        like: only its shape and dtype are read.
    """
    stacked = path[0] == "blocks"
    result = source[layer_choice(source.shape[0], like.shape[0])] if stacked else source
    result = result.astype(jnp.promote_types(source.dtype, jnp.float32))
    # A kernel [in, out] is the reference's weight [out, in]: its axes take their turns in that order.
    axes = (-1, -2) if path[-1] == "kernel" else tuple(range(-(source.ndim - stacked), 0))
    for axis in axes:
        result = interpolated(result, like.shape[axis], axis=axis)
    last = axes[-1]
    if len(axes) > 1 and path[0] != "head":
        result = result * (source.shape[last] / like.shape[last]) ** 0.5
    return result.astype(like.dtype)


def layer_choice(source_layers: int, layers: int) -> np.ndarray:
    """Which of the source's layers each of `layers` layers takes: int[layers].

    Raises:
        ValueError: if there are more layers than the source has.
    """
    if layers > source_layers:
        raise ValueError(
            f"an expert of {layers} layers cannot be taken from one of {source_layers}; only a shallower one"
        )
    if layers == 1:
        return np.array([source_layers - 1])
    return np.array([round(i * (source_layers - 1) / (layers - 1)) for i in range(layers)])


def interpolated(x: jax.Array, size: int, *, axis: int) -> jax.Array:
    """x with `axis` resized to `size` by linear interpolation whose end points are those of x."""
    have = x.shape[axis]
    if have == size:
        return x
    position = np.arange(size) * ((have - 1) / max(size - 1, 1))
    low = np.minimum(position.astype(np.int64), have - 1)
    high = np.minimum(low + 1, have - 1)
    weight = jnp.asarray(position - low, x.dtype).reshape(-1, *[1] * (-axis - 1))
    return jnp.take(x, low, axis=axis) * (1 - weight) + jnp.take(x, high, axis=axis) * weight


def _copied(path: tuple[str, ...], source: jax.Array, like: jax.Array) -> jax.Array:
    if source.shape != like.shape:
        raise ValueError(f"{'/'.join(path)}: {source.shape} of the video expert cannot be copied to {like.shape}")
    return source


def _leaf(tree: dict[str, Any], path: tuple[str, ...]) -> jax.Array:
    node: Any = tree
    for name in path:
        node = node[name]
    return node
