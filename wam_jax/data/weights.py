"""What the samples of each episode weigh where they are drawn with replacement.

    uniform            every item the same
    length             an item by the latent frames that it has on average
    task               every task the same share of the draws, its items evenly
    length_and_task    every task the same share of the draws, its items by length

Tasks share in proportion to their own weights where these are given. On several routes all of this holds within each.
"""

import numpy as np
import pyarrow as pa

from wam_jax.config.schema import SampleConstructionConfig, TaskWeight
from wam_jax.data.draw_law import DrawLaw
from wam_jax.data.index import Index
from wam_jax.data.samplers import RowWeights
from wam_jax.errors import InputError

_SHOWN = 8


def row_weights(law: DrawLaw, index: Index, construction: SampleConstructionConfig) -> RowWeights | None:
    """The weights of the rows of a law; None where all items weigh the same.

    Args:
        law: of training draws.
        index: the store's.
        construction: `data.sample_construction`.
    Raises:
        InputError: a weight is given for a task of no episode.
    """
    kind, space = construction.replacement_weights, law.space
    if kind == "uniform":
        return None
    weights = np.diff(space.ends, prepend=0).astype(np.float64)
    if kind != "task":
        weights *= space.mean_frames()
    if kind != "length":
        weights = _shared(weights, law.row_route, index.tasks[space.episodes], construction.task_weights)
    return RowWeights(space.ends, np.concatenate([[0.0], np.cumsum(weights)]))


def _shared(weights: np.ndarray, route: np.ndarray, tasks: np.ndarray, given: tuple[TaskWeight, ...]) -> np.ndarray:
    """Weights of rows, scaled so that those of a task add up to its own weight on every route: float64[rows]."""
    coded = pa.array(tasks, pa.string()).dictionary_encode()
    names, task = coded.dictionary.to_pylist(), coded.indices.to_numpy()
    own = np.array([dict(given).get(name, 1.0) for name in names])
    for name, _ in given:
        if name not in names:
            shown = ", ".join(sorted(names)[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
            remedy = f"no training episode is of this task; tasks: {shown}"
            raise InputError("data.sample_construction.task_weights", name, remedy)
    group = route * len(names) + task
    return weights / np.bincount(group, weights)[group] * own[task]
