"""`tokenwise`: right, the same bits for a sample everywhere, and at home under jit, scan and remat."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh

from tests.kernels.invariant.operators import DTYPES, SHIPPED, cases, check_bits, evaluate, relative_error
from tests.kernels.invariant.segments import HIDDEN, WIDTH, frames, gradients, parameters, plain, segment
from wam_kernels.invariant import sharded_tokenwise, tokenwise

TILE = 8
COUNT = 20
"""Frames of our sample: two and a half tiles."""
PLACES = {"first": (0, 6), "last of 4": (1, 4), "last of 9": (6, 9), "middle": (2, 7)}
"""The tile at which our sample begins, and tiles a row."""

BOUND = {"float32": 1e-6, "bfloat16": 1.5e-2}
"""The segment rounds to its dtype six times on the way."""

run = functools.partial(tokenwise, segment, tile=TILE)
KEPT = {
    "as JAX keeps": run,
    "operands": functools.partial(tokenwise, jax.checkpoint(segment), tile=TILE),
    "products": functools.partial(
        tokenwise, jax.checkpoint(segment, policy=jax.checkpoint_policies.dots_saveable), tile=TILE
    ),
}


def evaluated(run, params, arrays, upstream, level=0):
    return evaluate(functools.partial(gradients, run), params, arrays, upstream, level=level)


@pytest.mark.parametrize(
    ("kept", "dtype"), cases([("as JAX keeps", "bfloat16"), ("operands", "float32")], KEPT, DTYPES)
)
def test_it_is_the_function(kept, dtype):
    params, arrays = parameters(dtype), frames(2, COUNT, dtype)
    upstream = np.random.default_rng(1).standard_normal(arrays[0].shape, np.float32).astype(dtype)
    wide = jax.tree.map(lambda x: x if x.dtype == np.int32 else x.astype(np.float64), (params, arrays, upstream))
    with jax.enable_x64():
        result, ids, expected = evaluated(plain, *wide)
    got = evaluated(KEPT[kept], params, arrays, upstream)
    np.testing.assert_array_equal(got[1], ids)
    for one, other in zip(*map(jax.tree.leaves, (got[::2], (result, expected))), strict=True):
        assert relative_error(one, other) < BOUND[dtype]


def placed(dtype, start, tiles, *, around=1.0, row=0, rows=1):
    """Our sample from tile `start` on in one of the rows of others, whose upstream gradient is zero."""
    own, others = frames(1, COUNT, dtype), frames(rows, tiles * TILE, dtype, seed=2)
    here = slice(start * TILE, start * TILE + COUNT)
    arrays = [x if x.dtype == np.int32 else x * np.asarray(around, x.dtype) for x in others]
    upstream = np.zeros_like(others[0])
    upstream[row, here] = np.random.default_rng(1).standard_normal(own[0][0].shape, np.float32)
    for whole, part in zip(arrays, own, strict=True):
        whole[row, here.start : here.start + 3 * TILE] = 0  # the rest of our last tile is ours
        whole[row, here] = part[0]
    return arrays, upstream, (row, here)


def ours(run, dtype, place, *, level=SHIPPED, **options):
    """Everything about our sample: its result, its gradients, and the parameters'."""
    arrays, upstream, here = placed(dtype, *place, **options)
    result, _, (of_params, *of_arrays) = evaluated(run, parameters(dtype), arrays, upstream, level)
    return [*(x[here] for x in jax.tree.leaves((result, of_arrays))), *jax.tree.leaves(of_params)]


def check_places(run, dtype, places, *, level=SHIPPED, **options):
    alone = ours(run, dtype, (0, 3), level=level)
    for place in places:
        for got, expected in zip(ours(run, dtype, PLACES[place], level=level, **options), alone, strict=True):
            check_bits(got, expected, place)


@pytest.mark.parametrize(("dtype", "place"), cases([("bfloat16", "middle")], DTYPES, PLACES))
def test_a_sample_has_the_same_bits_at_every_place(dtype, place):
    check_places(run, dtype, [place])


@pytest.mark.slow
@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("kept", KEPT)
def test_whatever_is_kept_and_optimised(kept, level):
    check_places(KEPT[kept], "float32", PLACES, level=level)


@pytest.mark.parametrize("around", [np.nan, pytest.param(np.inf, marks=pytest.mark.slow)], ids=str)
def test_what_others_hold_is_harmless(around):
    check_places(run, "float32", ["middle"], around=around, row=1, rows=2, level=0)


def test_one_tile_has_the_bits_it_has_among_many():
    params, arrays = parameters("float32"), frames(1, 3 * TILE, "float32")
    forward = lambda *arrays: run(params, *arrays)["tokens"]  # noqa: E731
    many = evaluate(forward, *arrays, level=SHIPPED)
    for i in range(3):
        one = evaluate(forward, *(x[:, i * TILE : (i + 1) * TILE] for x in arrays), level=SHIPPED)
        check_bits(one, many[:, i * TILE : (i + 1) * TILE])


def test_gradients_of_parameters_are_the_sum_over_tiles_in_order():
    x = np.random.default_rng(0).standard_normal((2, 3 * TILE, WIDTH), np.float32)
    w = np.random.default_rng(1).standard_normal((WIDTH, HIDDEN), np.float32)
    gradient = jax.grad(lambda w, x: tokenwise(lambda w, x: jnp.tanh(x @ w), w, x, tile=TILE).sum())
    total = np.zeros_like(w)
    for part in x.reshape(-1, 1, TILE, WIDTH):
        total = total + evaluate(gradient, w, part)
    check_bits(evaluate(gradient, w, x), total)


def test_sums_are_kept_in_float32():
    w, x = jnp.ones((1, 1), jnp.bfloat16), jnp.ones((1, 512 * TILE, 1), jnp.bfloat16)
    gradient = jax.grad(lambda w: tokenwise(lambda w, x: x @ w, w, x, tile=TILE).astype(jnp.float32).sum())(w)
    assert gradient == 512 * TILE  # in bfloat16 the sum would stop growing at 2048


def layers(w, x, policy):
    """Three layers under scan and remat."""
    body = jax.checkpoint(
        lambda x, w: (x + tokenwise(lambda w, x: jnp.tanh(x @ w), w, x, tile=TILE), None), policy=policy
    )
    return jax.lax.scan(body, x, w)[0]


@pytest.mark.parametrize("policy", [None, jax.checkpoint_policies.everything_saveable], ids=["nothing", "everything"])
def test_under_scan_over_layers_and_remat(policy):
    rng = np.random.default_rng(0)
    w, x = (rng.standard_normal(shape, np.float32) / 4 for shape in ((3, WIDTH, WIDTH), (2, COUNT, WIDTH)))
    got = evaluate(jax.grad(lambda w, x: (layers(w, x, policy) ** 2).sum(), (0, 1)), w, x)

    def dense(w, x):
        for layer in w:
            x = x + jnp.tanh(x @ layer)
        return (x**2).sum()

    for one, other in zip(got, evaluate(jax.grad(dense, (0, 1)), w, x), strict=True):
        assert relative_error(one, other) < 1e-6


def test_weights_are_not_kept_for_every_tile():
    w, x = np.ones((WIDTH, HIDDEN), np.float32), jnp.ones((1, 16 * TILE, WIDTH), jnp.bfloat16)
    function = lambda w, x: jnp.einsum("tk,kn->tn", x, w.astype(x.dtype))  # noqa: E731
    _, pullback = jax.vjp(lambda w, x: tokenwise(function, w, x, tile=TILE), w, x)
    kept = sum(leaf.size for leaf in jax.tree.leaves(pullback))
    assert kept <= w.size + x.size


def test_rows_on_a_device_are_its_own():
    mesh = Mesh(np.asarray(jax.devices()[:1]), ("data",))
    x = np.random.default_rng(0).standard_normal((2, COUNT, WIDTH), np.float32)
    w = np.random.default_rng(1).standard_normal((WIDTH, WIDTH), np.float32)
    function = lambda w, x: jnp.tanh(x @ w)  # noqa: E731
    spread = functools.partial(sharded_tokenwise, function, mesh=mesh, row_axes=("data",), tile=TILE)
    one, other = (
        evaluate(jax.grad(lambda w, x, run=run: (run(w, x) ** 2).sum(), (0, 1)), w, x)
        for run in (spread, functools.partial(tokenwise, function, tile=TILE))
    )
    for got, expected in zip(one, other, strict=True):
        check_bits(got, expected)


def test_arrays_that_do_not_belong_together_are_refused():
    with pytest.raises(ValueError, match=r"token arrays lead with \[\(1, 8\), \(1, 9\)\]"):
        tokenwise(lambda _, x, y: x + y, None, jnp.ones((1, 8, 2)), jnp.ones((1, 9, 2)))
    with pytest.raises(ValueError, match="tile = 0"):
        tokenwise(lambda _, x: x, None, jnp.ones((1, 8)), tile=0)
    with pytest.raises(ValueError, match=r"wanted \[4, \.\.\.\]"):
        tokenwise(lambda _, x: x.sum(0), None, jnp.ones((1, 8, 2)), tile=4)


def test_a_traced_array_that_is_closed_over_is_refused():
    x = jnp.ones((1, 8, 2))
    with pytest.raises(jax.errors.UnexpectedTracerError):
        jax.grad(lambda w: tokenwise(lambda _, x: x * w, None, x, tile=4).sum())(2.0)
