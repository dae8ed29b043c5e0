"""What the samples of each episode weigh where they are drawn with replacement.

    uniform            every item the same
    length             an item by the latent frames that it has on average
    task               every task the same share of the draws, its items evenly
    length_and_task    every task the same share of the draws, its items by length

Tasks share in proportion to their own weights where these are given. Where several stores are mixed, each has its own
share of the draws, and all of this holds within it. On several routes all of this holds within each.
"""

import numpy as np
import pyarrow as pa

from wam_jax.config.schema import SampleConstructionConfig, TaskWeight
from wam_jax.data.drawing.draw_law import DrawLaw
from wam_jax.data.drawing.samplers import RowWeights
from wam_jax.data.storage.index import Index
from wam_jax.data.storage.mixture import Mixture
from wam_jax.errors import InputError

_SHOWN = 8


def row_weights(
    law: DrawLaw, index: Index, construction: SampleConstructionConfig, *, mixture: Mixture | None = None
) -> RowWeights | None:
    """The weights of the rows of a law; None where all items weigh the same.

    Args:
        law: of training draws.
        index: the store's.
        construction: `data.sample_construction`.
        mixture: where the episodes are of several stores; these share the draws in proportion to their weights.
    Raises:
        InputError: a weight is given for a task of no episode.
    """
    kind, space = construction.replacement_weights, law.space
    if kind == "uniform" and mixture is None:
        return None
    weights = np.diff(space.ends, prepend=0).astype(np.float64)
    stores = np.zeros_like(space.episodes) if mixture is None else mixture.store_of[space.episodes]
    if kind in ("length", "length_and_task"):
        weights *= space.mean_frames()
    if kind in ("task", "length_and_task"):
        task, own = _tasks(index.tasks[space.episodes], construction.task_weights)
        weights = _shared(weights, (law.row_route, stores, task), own[task])
    if mixture is not None:
        weights = _shared(weights, (law.row_route, stores), mixture.weights[stores])
    return RowWeights(space.ends, np.concatenate([[0.0], np.cumsum(weights)]))


def _tasks(tasks: np.ndarray, given: tuple[TaskWeight, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The task of each row as a number, int64[rows], and the weight of each task, float64[tasks]."""
    coded = pa.array(tasks, pa.string()).dictionary_encode()
    names = coded.dictionary.to_pylist()
    for name, _ in given:
        if name not in names:
            shown = ", ".join(sorted(names)[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
            remedy = f"no training episode is of this task; tasks: {shown}"
            raise InputError("data.sample_construction.task_weights", name, remedy)
    return coded.indices.to_numpy().astype(np.int64), np.array([dict(given).get(name, 1.0) for name in names])


def _shared(weights: np.ndarray, groups: tuple[np.ndarray, ...], own: np.ndarray) -> np.ndarray:
    """Weights of rows, scaled so that those of a group add up to its own weight: float64[rows].

    Args:
        weights: float64[rows].
        groups: int64[rows] each; rows that agree in all of them are one group.
        own: float64[rows], the weight of the group of each row.
    """
    group = np.ravel_multi_index(groups, tuple(int(codes.max()) + 1 for codes in groups))
    return weights / np.bincount(group, weights)[group] * own
