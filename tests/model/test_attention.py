"""The attention layer's norm, the call of the kernel, and the text keys."""

import dataclasses

import jax.numpy as jnp
import numpy as np
from flax import nnx

from tests.model.rows import TINY, Array, normal, random_params, random_row, tiny
from wam_jax.model import abstract_params, merge
from wam_jax.model.attention import Attention, Visibility, attend
from wam_jax.model.context import TextContext
from wam_kernels import KeyRanges


def test_queries_are_normalised_over_all_heads_together() -> None:
    layer = Attention(TINY, 12, rngs=nnx.Rngs(0))
    layer.query.kernel[...] = layer.query.kernel[...].at[:, :8].multiply(3.0)  # the first of two heads
    x = normal(5, 12)
    projected, q = np.asarray(layer.query(x)), np.asarray(layer.queries(x))
    np.testing.assert_allclose((q**2).sum((1, 2)), 16, rtol=1e-4)
    np.testing.assert_allclose(q.reshape(5, 16) / projected, (q[:, 0, :1] / projected[:, :1]).repeat(16, 1), rtol=1e-4)


def test_values_are_plain() -> None:
    layer = Attention(TINY, 12, rngs=nnx.Rngs(0))
    x = normal(5, 12)
    np.testing.assert_array_equal(layer.values(x).reshape(5, 16), layer.value(x))


def test_without_any_key_there_is_nothing_to_read() -> None:
    q, nothing = jnp.ones((1, 3, 2, 8)), jnp.ones((1, 0, 2, 8))
    ranges = KeyRanges(jnp.zeros((1, 1, 1, 2), jnp.int32), jnp.zeros((1, 3), jnp.int32))
    visible = Visibility(ranges=ranges, key_valid=None, tiles=())
    np.testing.assert_array_equal(attend(q, nothing, nothing, visible, TINY), 0)


def test_text_keys_are_text_then_states_then_modes() -> None:
    config = tiny(proprio="text_context_token", mode_token=True)
    row, params = random_row(config), random_params(config)["text_context"]
    keys = np.asarray(merge(config, random_params(config)).text_context(row))
    np.testing.assert_array_equal(keys[:, :3], row.text)
    states = row.proprio_keys @ params["proprio_encoder"]["kernel"] + params["proprio_encoder"]["bias"]
    np.testing.assert_allclose(keys[:, 3:5], states, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(keys[0, 5:], params["mode"]["table"][[2, 0]])


def test_text_alone_is_taken_as_it_is() -> None:
    row = random_row(TINY)
    np.testing.assert_array_equal(TextContext(TINY, rngs=nnx.Rngs(0))(row), row.text)


def test_states_added_to_actions_are_projected_only_between_unequal_widths() -> None:
    unequal = tiny(proprio="per_chunk_additive")
    equal = dataclasses.replace(unequal, action=unequal.video)
    assert "context_projection" in abstract_params(unequal)["action_expert"]
    assert "context_projection" not in abstract_params(equal)["action_expert"]
    context: Array = np.ones((1, 4, 20), np.float32)
    assert merge(equal, random_params(equal)).action_expert.project_context(context) is context
