"""The rules by which the action expert starts from the video expert."""

import jax
import numpy as np
import pytest

from tests.model.rows import TINY, Array, random_params, tiny
from wam_jax.model.action_init import initialise_action_expert, interpolated, layer_choice, resized

EQUAL = tiny(action=TINY.video, action_init="video_weight_copy")


def _leaves(tree: dict) -> list[tuple[str, np.ndarray]]:
    flat = jax.tree.leaves_with_path(tree)
    return [(jax.tree_util.keystr(path, simple=True, separator="/"), np.asarray(leaf)) for path, leaf in flat]


def test_random_copies_nothing() -> None:
    params = random_params(EQUAL)
    assert initialise_action_expert(params, "random") is params


def test_copy_takes_time_embedding_blocks_and_the_head_table_and_no_more() -> None:
    params = random_params(EQUAL)
    result = initialise_action_expert(params, "video_weight_copy")
    for path, leaf in _leaves(result["action_expert"]):
        taken = path.startswith(("time_embedding/", "blocks/", "head/modulation/"))
        source = dict(_leaves(params["video_expert" if taken else "action_expert"]))[path]
        np.testing.assert_array_equal(leaf, source)
    assert result["video_expert"] is params["video_expert"]


def test_copy_refuses_unequal_shapes() -> None:
    with pytest.raises(ValueError, match=r"blocks/.*/kernel: .* cannot be copied"):
        initialise_action_expert(random_params(TINY), "video_weight_copy")


def test_interpolation_between_equal_experts_is_a_copy() -> None:
    params = random_params(EQUAL)
    results = [initialise_action_expert(params, mode) for mode in ("video_weight_copy", "video_weight_interpolate")]
    for (path, a), (_, b) in zip(*map(_leaves, results), strict=True):
        np.testing.assert_array_equal(a, b, err_msg=path)


def test_interpolation_reaches_every_shape_and_spares_what_is_the_actions_own() -> None:
    params = random_params(TINY)
    before = params["action_expert"]
    after = initialise_action_expert(params, "video_weight_interpolate")["action_expert"]
    assert [(p, a.shape, a.dtype) for p, a in _leaves(after)] == [(p, a.shape, a.dtype) for p, a in _leaves(before)]
    for tree in (lambda expert: expert["action_embedding"], lambda expert: expert["head"]["projection"]):
        assert tree(after)["kernel"] is tree(before)["kernel"]


@pytest.mark.parametrize(
    ("source", "layers", "expected"),
    [(30, 1, [29]), (5, 5, [0, 1, 2, 3, 4]), (4, 3, [0, 2, 3]), (6, 3, [0, 2, 5]), (9, 2, [0, 8])],
)
def test_layers_are_chosen_half_to_even(source: int, layers: int, expected: list[int]) -> None:
    np.testing.assert_array_equal(layer_choice(source, layers), expected)


def test_no_deeper_expert_can_be_made() -> None:
    with pytest.raises(ValueError, match="only a shallower one"):
        layer_choice(3, 4)


@pytest.mark.parametrize(("size", "expected"), [(3, [0, 3, 6]), (2, [0, 6]), (1, [0]), (7, [0, 1, 2, 3, 4, 5, 6])])
def test_end_points_stay(size: int, expected: list[float]) -> None:
    x: Array = np.arange(4, dtype=np.float32) * 2
    np.testing.assert_allclose(interpolated(x, size, axis=-1), expected, atol=1e-6)


def _resize(path: str, source: Array, shape: tuple[int, ...]) -> np.ndarray:
    like: Array = np.zeros(shape, np.float32)
    return np.asarray(resized(tuple(path.split("/")), source, like))


def test_a_kernel_is_scaled_where_its_input_axis_changed() -> None:
    ones = np.ones((2, 8, 8), np.float32)
    path = "blocks/self_attention/query/kernel"
    np.testing.assert_allclose(_resize(path, ones, (2, 2, 8)), 2.0)
    np.testing.assert_allclose(_resize(path, ones, (2, 8, 2)), 1.0)


def test_tables_of_blocks_are_scaled_and_that_of_the_head_is_not() -> None:
    np.testing.assert_allclose(_resize("blocks/modulation/table", np.ones((2, 6, 8), np.float32), (2, 6, 2)), 2.0)
    np.testing.assert_allclose(_resize("head/modulation/table", np.ones((2, 8), np.float32), (2, 2)), 1.0)


def test_vectors_are_never_scaled() -> None:
    for name in ("cross_norm/scale", "self_attention/query/bias"):
        np.testing.assert_allclose(_resize(f"blocks/{name}", np.ones((2, 8), np.float32), (2, 2)), 1.0)
    np.testing.assert_allclose(_resize("time_embedding/modulation/bias", np.ones(48, np.float32), (12,)), 1.0)


def test_a_shallower_stack_takes_whole_layers() -> None:
    source = np.arange(4, dtype=np.float32)[:, None] * np.ones(3, np.float32)
    np.testing.assert_array_equal(_resize("blocks/cross_norm/scale", source, (3, 3))[:, 0], [0, 2, 3])


def test_both_axes_of_a_kernel_are_resized() -> None:
    rows, columns = np.meshgrid(np.arange(5.0), np.arange(3.0), indexing="ij")
    source = (10 * rows + columns).astype(np.float32)
    expected = (10 * np.array([0, 2, 4])[:, None] + np.array([0, 2])) * (5 / 3) ** 0.5
    np.testing.assert_allclose(_resize("time_embedding/mlp/output/kernel", source, (3, 2)), expected, rtol=1e-6)
