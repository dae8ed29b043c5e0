"""From the losses of samples to numbers of an update or a validation: every sample weighs the same, wherever it was.

Sums over samples add up over rows, batches and processes; means are taken once, at the end. A routed run has its
numbers once more for each objective: `joint/loss` is the mean of `loss` over the samples of that objective, and
`joint/count` says how many there were. The names are the run's and never depend on what a batch holds; the mean of no
sample is NaN.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from wam_jax.data.transport import SampleSlots
from wam_jax.sequence.objectives import Objective

COUNT = "count"


def sums_over_samples(
    losses: Mapping[str, jax.Array], samples: SampleSlots, objectives: Sequence[Objective]
) -> dict[str, jax.Array]:
    """Sums over the samples of a batch: float32[] each.

    Args:
        losses: float32[R, S] by name; empty slots may hold anything.
        samples: the slots.
        objectives: of the run; the sums of each stand beside the totals where there are several.
    Returns:
        The totals by their names, `count`, and per objective the same under `OBJECTIVE/`.
    """
    sums = _sums(losses, samples.valid)
    for objective in objectives if len(objectives) > 1 else ():
        own = _sums(losses, samples.valid & (samples.objective == objective))
        sums |= {f"{objective.label}/{name}": value for name, value in own.items()}
    return sums


def means_over_samples(sums: Mapping[str, Any]) -> dict[str, Any]:
    """Means of what sums were taken of, on the host or the device; counts stay."""
    means = {}
    with np.errstate(invalid="ignore"):
        for name, value in sums.items():
            group, _, kind = name.rpartition("/")
            means[name] = value if kind == COUNT else value / sums[f"{group}/{COUNT}" if group else COUNT]
    return means


def _sums(losses: Mapping[str, jax.Array], chosen: jax.Array) -> dict[str, jax.Array]:
    sums = {name: jnp.where(chosen, value, 0.0).sum() for name, value in losses.items()}
    return sums | {COUNT: chosen.sum().astype(jnp.float32)}
