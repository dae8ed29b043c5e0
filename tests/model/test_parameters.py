"""The parameter tree, its initial values, and running a model on a pure dict."""

import dataclasses
import functools

import jax
import numpy as np
import pytest
from flax import nnx

from tests.model.rows import QUICK, TINY, random_params, tiny
from wam_jax.model import ExpertSize, Params, abstract_params, init_params, merge, parameters
from wam_jax.model.expert import stacked_blocks

WIDE = tiny(
    video=ExpertSize(width=96, ffn_dim=128),
    action=ExpertSize(width=64, ffn_dim=80),
    proprio="per_chunk_additive",
    mode_token=True,
    text_dim=64,
    action_init="random",
    num_layers=3,
)


@pytest.fixture(scope="module")
def initial() -> Params:
    """The initial parameters of `WIDE`."""
    params = jax.jit(init_params, static_argnums=0, compiler_options=QUICK)(WIDE, jax.random.key(0))
    return jax.tree.map(np.asarray, params)


def _paths(tree: Params) -> dict[str, np.ndarray]:
    flat = jax.tree.leaves_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in flat}


def test_every_leaf_says_what_it_is() -> None:
    assert {path.split("/")[-1] for path in _paths(abstract_params(WIDE))} == {"kernel", "bias", "scale", "table"}


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("video_expert/patch_embedding/kernel", (4, 96)),
        ("video_expert/text_embedding/output/kernel", (96, 96)),
        ("video_expert/time_embedding/modulation/kernel", (96, 576)),
        ("video_expert/blocks/modulation/table", (3, 6, 96)),
        ("video_expert/blocks/self_attention/query/kernel", (3, 96, 16)),
        ("video_expert/blocks/cross_attention/key_norm/scale", (3, 16)),
        ("video_expert/blocks/cross_norm/bias", (3, 96)),
        ("video_expert/head/projection/kernel", (96, 4)),
        ("action_expert/action_embedding/kernel", (3, 64)),
        ("action_expert/text_embedding/kernel", (64, 64)),
        ("action_expert/blocks/feed_forward/hidden/kernel", (3, 64, 80)),
        ("action_expert/head/modulation/table", (2, 64)),
        ("action_expert/context_projection/kernel", (96, 64)),
        ("proprio_encoder/kernel", (5, 96)),
        ("text_context/mode/table", (3, 64)),
    ],
)
def test_paths_and_shapes(path: str, shape: tuple[int, ...]) -> None:
    assert _paths(abstract_params(WIDE))[path].shape == shape


def test_the_documented_names_are_those_of_the_tree() -> None:
    documented = parameters.__doc__ or ""
    config = tiny(proprio="text_context_token")
    for path in _paths(abstract_params(WIDE)) | _paths(abstract_params(config)):
        for name in path.split("/"):
            assert name in documented


def test_initial_values_follow_their_laws(initial: Params) -> None:
    for path, leaf in _paths(initial).items():
        name = path.split("/")[-1]
        if path.startswith("proprio_encoder") or name == "bias":
            assert not leaf.any(), path
        elif name == "scale":
            assert (leaf == 1).all(), path
        else:
            law = 0.02 if "mode" in path.split("/") else leaf.shape[-2 if name == "kernel" else -1] ** -0.5
            assert np.std(leaf) == pytest.approx(law, rel=6 * (2 * leaf.size) ** -0.5), path


def test_a_layer_does_not_depend_on_how_many_there_are() -> None:
    @functools.partial(jax.jit, compiler_options=QUICK)
    def kernels(key: jax.Array) -> list[jax.Array]:
        deep, shallow = (dataclasses.replace(WIDE, num_layers=n) for n in (3, 2))
        stacks = (stacked_blocks(config, config.action, rngs=nnx.Rngs(key)) for config in (deep, shallow))
        return [stack.feed_forward.hidden.kernel[...] for stack in stacks]

    deep, shallow = kernels(jax.random.key(0))
    np.testing.assert_array_equal(deep[:2], shallow)


def test_the_abstract_tree_is_that_of_the_real_one(initial: Params) -> None:
    real = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), initial)
    assert real == jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), abstract_params(WIDE))


def test_merge_refuses_the_tree_of_another_model() -> None:
    params = random_params(TINY)
    with pytest.raises(ValueError, match="text_context/mode/table"):
        merge(tiny(mode_token=True), params)
    with pytest.raises(ValueError, match="extra/kernel"):
        merge(TINY, params | {"extra": {"kernel": np.zeros(1)}})


def test_merge_refuses_a_leaf_of_another_shape() -> None:
    with pytest.raises(ValueError, match=r"action_embedding/kernel.*\(3, 12\).*\(5, 12\)"):
        merge(tiny(action_dim=5), random_params(TINY))
