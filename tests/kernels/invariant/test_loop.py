"""The loop under `tokenwise`, as compiled: one body whatever the number of tiles, and what happens without its care."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.kernels.invariant.operators import SHIPPED, compiled, evaluate
from wam_kernels.invariant.loop import map_tiles, tile_loop

TILE, WIDTH = 16, 80


SCALE, BIAS = np.random.default_rng(1).standard_normal((2, WIDTH), np.float32)


def norm(x):
    """A tile of layer norm: its last multiplication and addition are one operation or two as the compiler likes."""
    return jax.nn.standardize(x, axis=-1, epsilon=1e-6) * SCALE + BIAS


def tiles(count):
    return np.random.default_rng(0).standard_normal((9, TILE, WIDTH), np.float32)[:count]


def body_of(count, level):
    """All that the loop's body calls, sorted, without names and without what says how many tiles there are."""
    text = str(compiled(lambda x: map_tiles(norm, x), tiles(count), level=level).as_text())
    blocks = {m[1]: m[0] for m in re.finditer(r"^%([\w.\-]+) \(.*?^}", text, re.MULTILINE | re.DOTALL)}
    (pending,) = re.findall(r"body=%([\w.\-]+)", text)
    pending, reached = [pending], []
    while pending:
        block = blocks[pending.pop()]
        pending += re.findall(r"(?:calls|to_apply)=%([\w.\-]+)", block)
        block = re.sub(r"metadata=\{[^}]*\}|%[\w.\-]+|[\w.]+: ", "", block)
        reached.append(re.sub(rf"\[{max(count, 2)},{TILE},{WIDTH}\]|constant\({max(count, 2)}\)", "MANY", block))
    return sorted(reached)


@pytest.mark.parametrize("level", [0, SHIPPED])
def test_the_body_is_compiled_alike_for_any_number_of_tiles(level):
    one, five, nine = (body_of(count, level) for count in (1, 5, 9))
    assert one == five == nine
    assert any("rsqrt" in block for block in one)


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_one_tile_is_still_a_loop(level):
    text = str(compiled(lambda x: map_tiles(norm, x), tiles(1), level=level).as_text())
    assert text.count(" while(") == 1
    assert "known_trip_count" not in text


def test_a_scan_over_one_tile_is_none_and_has_other_bits():
    scan = lambda x: lax.map(norm, x)  # noqa: E731
    assert " while(" not in str(compiled(scan, tiles(1)).as_text())
    assert (evaluate(scan, tiles(1)) != evaluate(scan, tiles(5))[:1]).any()
    ours = lambda x: map_tiles(norm, x)  # noqa: E731
    np.testing.assert_array_equal(evaluate(ours, tiles(1)), evaluate(ours, tiles(5))[:1])


@pytest.mark.parametrize("count", [0, 1, 5])
def test_it_is_a_scan(count):
    step = lambda total, x: (total + x.sum(), {"double": 2 * x, "total": total})  # noqa: E731
    x = jnp.arange(3 * count, dtype=jnp.int32).reshape(count, 3)
    expected = lax.scan(step, jnp.int32(0), x)
    for got, other in zip(*map(jax.tree.leaves, (tile_loop(step, jnp.int32(0), x), expected)), strict=True):
        np.testing.assert_array_equal(got, other)
