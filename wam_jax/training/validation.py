"""The held-out loss: the same draws, with the same noise and timesteps, at every validation.

Every sample counts once, whatever batch it is in and however many empty slots are beside it. The loss of predicting a
velocity of zero on the same draws stands beside each loss.
"""

import time
from collections.abc import Callable, Sequence

import jax
from jax.sharding import Mesh

from wam_jax.data.transport import RowBatch
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
        The losses and metrics by name, `num_samples` and `seconds`.
    """
    begun = time.perf_counter()
    parts = [evaluate(params, put_rows(mesh, batch)) for batch in batches]
    totals = {name: sum(part[name] for part in jax.device_get(parts)) for name in parts[0]}
    count = int(totals.pop("count"))
    means = {name: float(total / count) for name, total in totals.items()}
    return means | {"num_samples": count, "seconds": time.perf_counter() - begun}
