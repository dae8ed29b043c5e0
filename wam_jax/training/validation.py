"""The held-out loss: the same draws, with the same noise and timesteps, at every validation.

Every sample counts once, whatever batch it is in and however many empty slots are beside it. The loss of predicting a
velocity of zero on the same draws stands beside each loss. The device holds the batch it works on and the next one.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

import jax
import numpy as np
from jax.sharding import Mesh

from wam_jax.data.transport import RowBatch
from wam_jax.decode.aggregate import COUNT, means_over_samples
from wam_jax.policies.base import Params
from wam_jax.training.mesh import put_rows
from wam_jax.training.metrics import Row
from wam_jax.training.programs import Scalars


def validate(
    evaluate: Callable[[Params, RowBatch], Scalars], params: Params, batches: Sequence[RowBatch], mesh: Mesh
) -> Row:
    """Means over all samples of the batches.

    Args:
        evaluate: `Programs.evaluate`.
        params: the parameters.
        batches: on the host, equally many on every process; at least one sample in all.
        mesh: the run's.
    Returns:
        The losses and metrics by name, also of each objective's own samples, `num_samples` and `seconds`.
    """
    begun = time.perf_counter()
    totals: dict[str, np.ndarray] = {}
    for part in _fetched_late(evaluate(params, put_rows(mesh, batch)) for batch in batches):
        totals = {name: totals[name] + value if totals else value for name, value in part.items()}
    means = {name: float(mean) for name, mean in means_over_samples(totals).items()}
    return {"num_samples": int(means.pop(COUNT)), "seconds": time.perf_counter() - begun} | means


def _fetched_late(parts: Iterable[Scalars]) -> Iterator[dict[str, np.ndarray]]:
    """The numbers of each batch on the host, fetched when the next batch has been handed to the device."""
    waiting: deque[Scalars] = deque()
    for part in parts:
        waiting.append(part)
        if len(waiting) > 1:
            yield jax.device_get(waiting.popleft())
    yield from map(jax.device_get, waiting)
