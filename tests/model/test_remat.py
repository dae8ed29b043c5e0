"""Remat policies: what a layer keeps, read off the traced gradient; equal gradients under `slow`."""

import functools
from typing import Any

import jax
import numpy as np
import pytest

from tests.model.rows import QUICK, TINY, mean_square, random_params, random_row, tiny
from tests.model.tracing import equations

TOKENS = 6 * TINY.tokens_per_frame + 4 * TINY.actions_per_frame
LAYERS = TINY.num_layers


@functools.lru_cache
def _gradient(remat: str) -> list[Any]:
    """All equations of the gradient, traced once for each policy."""
    config = tiny(attention="xla", remat=remat)
    row = random_row(config)
    traced = jax.make_jaxpr(jax.grad(lambda params: mean_square(config, params, row)))(random_params(config))
    return list(equations(traced.jaxpr))


def _kept(remat: str) -> list[tuple[int, ...]]:
    """Shapes of the arrays that the forward scan over layers hands to the backward one, all layers stacked."""
    forward = next(eqn for eqn in _gradient(remat) if eqn.primitive.name == "scan" and eqn.params["length"] == LAYERS)
    return [out.aval.shape for out in forward.outvars if out.aval.shape[:1] == (LAYERS,)]


def _memories(remat: str) -> set[str]:
    """Where the arrays are that the forward scan over layers hands to the backward one."""
    forward = next(eqn for eqn in _gradient(remat) if eqn.primitive.name == "scan" and eqn.params["length"] == LAYERS)
    return {str(out.aval.memory_space) for out in forward.outvars if out.aval.shape[:1] == (LAYERS,)}


def _attention(kept: list[tuple[int, ...]]) -> int:
    """How many joint outputs are kept, flattened to any form of [layers, 1, tokens, heads, head_dim]."""
    return sum(shape[:3] == (LAYERS, 1, TOKENS) and np.prod(shape[3:]) == TINY.inner_width for shape in kept)


def _elements(kept: list[tuple[int, ...]]) -> int:
    return sum(int(np.prod(shape)) for shape in kept)


def test_block_keeps_the_inputs_of_layers_alone() -> None:
    video, action = 6 * TINY.tokens_per_frame * TINY.video.width, 4 * TINY.actions_per_frame * TINY.action.width
    assert _elements(_kept("block")) == LAYERS * (video + action)


def test_save_attention_keeps_outputs_and_lse_of_the_kernels_as_well() -> None:
    kept = _kept("save_attention")
    assert _attention(kept) == 1
    assert (LAYERS, 1, TINY.num_heads, TOKENS) in kept
    assert _elements(kept) < _elements(_kept("none")) / 5


def test_none_keeps_queries_and_keys_too() -> None:
    assert _attention(_kept("none")) >= 3


def test_save_attention_spares_the_second_run_of_the_kernels() -> None:
    loops = {remat: sum(e.primitive.name == "while" for e in _gradient(remat)) for remat in ("block", "save_attention")}
    assert loops["save_attention"] < loops["block"]


def test_offload_keeps_as_much_as_save_attention_in_the_memory_of_the_host() -> None:
    assert sorted(_kept("offload")) == sorted(_kept("save_attention"))
    assert _memories("save_attention") == {"MemorySpace.Device"}
    assert _memories("offload") == {"MemorySpace.Host"}


@pytest.mark.slow
@pytest.mark.parametrize("remat", ["block", "save_attention", "offload"])
def test_remat_changes_no_gradient(remat: str) -> None:
    row, params = random_row(TINY), random_params(TINY)
    gradient = jax.jit(jax.grad(mean_square, argnums=1), static_argnums=0, compiler_options=QUICK)
    plain = gradient(tiny(attention="xla"), params, row)
    spared = gradient(tiny(attention="xla", remat=remat), params, row)
    for a, b in zip(jax.tree.leaves(spared), jax.tree.leaves(plain), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6 * np.abs(b).max())
