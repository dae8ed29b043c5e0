"""A token-wise segment with everything in it: integers, frames of tokens, a nested result, parameters of two dtypes."""

import jax
import jax.numpy as jnp
import numpy as np

WIDTH, HIDDEN = 32, 48
TOKENS = 4
"""Tokens of a frame; a tile is some frames."""


def segment(params, x, modulation, ids):
    """`x[tile, TOKENS, WIDTH]`, `modulation[tile, 2, WIDTH]`, `ids int32[tile]` to a nested result."""
    wide = x.astype(jnp.float32)
    normed = jax.nn.standardize(wide, axis=-1, epsilon=1e-6)
    shift, scale = (modulation[:, i, None] for i in range(2))
    h = (normed * (1 + scale) + shift).astype(x.dtype)
    hidden = jax.nn.gelu(h @ params["in"].astype(x.dtype) + params["bias"])
    table = params["table"][ids]  # integers choose among parameters, and are no subject of differentiation
    out = x + hidden @ params["out"].astype(x.dtype) * table[:, None]
    return {"tokens": out, "more": (ids + params["offset"], hidden.sum((1, 2)))}


def parameters(dtype):
    """Weights in float32; the bias in `dtype`."""
    rng = np.random.default_rng(0)
    draw = lambda *shape: rng.standard_normal(shape, np.float32)  # noqa: E731
    return {
        "in": draw(WIDTH, HIDDEN) / 6,
        "bias": draw(HIDDEN).astype(dtype),
        "out": draw(HIDDEN, WIDTH) / 6,
        "table": draw(5, WIDTH).astype(dtype),
        "offset": np.int32(7),
    }


def frames(rows, count, dtype, seed=0):
    """Token arrays of a number of frames a row."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, count, TOKENS, WIDTH), np.float32).astype(dtype)
    modulation = rng.standard_normal((rows, count, 2, WIDTH), np.float32)
    return x, modulation, rng.integers(0, 5, (rows, count), np.int32)


def plain(params, *arrays):
    """The segment over all frames at once."""
    rows, count = arrays[0].shape[:2]
    flat = segment(params, *(x.reshape(-1, *x.shape[2:]) for x in arrays))
    return jax.tree.map(lambda x: x.reshape(rows, count, *x.shape[1:]), flat)


def gradients(run, params, arrays, upstream):
    """The result, and the gradients of all floating-point parameters and of x and modulation.

    `upstream`: the gradient of the tokens of the result; the sums of the hidden layer count with their frame's first.
    """
    weights = {name: value for name, value in params.items() if name != "offset"}

    def floating(weights, x, modulation):
        out = run({**weights, "offset": params["offset"]}, x, modulation, arrays[2])
        return (out["tokens"], out["more"][1]), out["more"][0]

    result, pullback, ids = jax.vjp(floating, weights, *arrays[:2], has_aux=True)
    return result, ids, pullback((upstream, upstream[:, :, 0, 0]))
