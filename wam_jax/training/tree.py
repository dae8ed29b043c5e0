"""Names and sizes of the leaves of a parameter tree."""

from typing import Any

import jax


def path_name(path: Any) -> str:
    """Keys of a tree path joined by "/"."""
    return jax.tree_util.keystr(path, simple=True, separator="/")


def leaf_names(tree: Any) -> list[str]:
    """Names of all leaves, in the order of `jax.tree.leaves`."""
    return [path_name(path) for path, _ in jax.tree.leaves_with_path(tree)]


def named_shapes(tree: Any) -> dict[str, tuple[int, ...]]:
    """Leaf name to shape."""
    return {path_name(path): tuple(leaf.shape) for path, leaf in jax.tree.leaves_with_path(tree)}


def leaf_dtypes(tree: Any) -> list[Any]:
    """Dtypes of all leaves, in the order of `jax.tree.leaves`."""
    return [leaf.dtype for leaf in jax.tree.leaves(tree)]


def count_values(tree: Any) -> int:
    """Numbers held by all leaves together."""
    return sum(leaf.size for leaf in jax.tree.leaves(tree))


def parameter_counts(params: dict[str, Any]) -> dict[str, int]:
    """Numbers in each top-level part of the parameters, and in all (`total`)."""
    return {name: count_values(part) for name, part in params.items()} | {"total": count_values(params)}
