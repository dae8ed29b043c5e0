"""The compiled programs of a run: gradients of a microbatch, the update, the losses of a validation batch.

An update is a Python loop of gradient programs over its microbatches and one update program. With E samples in an
update (all rows, all microbatches) the loss is `sum of the samples' losses / E`: every sample weighs the same wherever
it was put. Gradients add up in float32. Each program compiles once per shape of its batch; the update compiles once.

An update whose loss or gradient is not finite changes nothing but the counters, on the device, whatever the host then
decides (`wam_jax.training.nonfinite`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax

from wam_jax.data.transport import RowBatch
from wam_jax.decode.aggregate import COUNT, means_over_samples, sums_over_samples
from wam_jax.policies.base import Params, TrainPolicy
from wam_jax.sequence import Objective
from wam_jax.training.optimizer import Optimizer, moving_average
from wam_jax.training.state import TrainState, shardings_of

type Scalars = dict[str, jax.Array]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Accumulator:
    """What the microbatches of an update have added up to.

    Attributes:
        gradients: float32, like the parameters.
        sums: float32[] by name: losses and metrics summed over samples.
    """

    gradients: Params
    sums: Scalars


@dataclass(frozen=True)
class Programs:
    """Compiled on first use.

    Attributes:
        zeros: () to an empty accumulator.
        gradient: (params, accumulator, batch) to the accumulator with the batch added; the accumulator is donated.
        update: (state, accumulator) to (state, metrics); the state is donated. Metrics are the means over samples,
            `loss` among them (`wam_jax.decode.aggregate`), and `grad_norm` before clipping, `lr`, `skipped` and
            `nonfinite`: bool[leaves], the gradients whose squared norm is not finite, in the order of
            `jax.tree.leaves`.
        evaluate: (params, batch) to sums over samples, those of the zero prediction among them, and `count`.
    """

    zeros: Callable[[], Accumulator]
    gradient: jax.stages.Wrapped
    update: Callable[[TrainState, Accumulator], tuple[TrainState, Scalars]]
    evaluate: Callable[[Params, RowBatch], Scalars]


def build_programs(
    policy: TrainPolicy,
    optimizer: Optimizer,
    *,
    abstract: TrainState,
    batch: RowBatch,
    samples_per_update: int,
    objectives: Sequence[Objective] = (),
) -> Programs:
    """The programs of a run.

    Args:
        policy: what is trained.
        optimizer: how.
        abstract: shapes and shardings of the state.
        batch: any batch, for the names of the losses; only its shapes are read.
        samples_per_update: E.
        objectives: of the run's draws; where there are several, losses and metrics of each stand beside the totals.
    """

    def sums(params: Params, batch: RowBatch, *, zero_prediction: bool) -> Scalars:
        losses = policy.forward_train_batch(params, batch, zero_prediction=zero_prediction)
        return sums_over_samples(losses, batch.samples, objectives)

    def loss(params: Params, batch: RowBatch) -> tuple[jax.Array, Scalars]:
        summed = sums(params, batch, zero_prediction=False)
        return summed["loss"] / samples_per_update, summed

    names = jax.eval_shape(loss, abstract.params, batch)[1]

    def zeros() -> Accumulator:
        gradients = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, jnp.float32), abstract.params)
        return Accumulator(gradients, {name: jnp.zeros(()) for name in names})

    def gradient(params: Params, total: Accumulator, batch: RowBatch) -> Accumulator:
        gradients, summed = jax.grad(loss, has_aux=True)(params, batch)
        return jax.tree.map(lambda old, new: old + new.astype(old.dtype), total, Accumulator(gradients, summed))

    def update(state: TrainState, total: Accumulator) -> tuple[TrainState, Scalars]:
        means = means_over_samples(total.sums | {COUNT: jnp.float32(samples_per_update)})
        del means[COUNT]
        return apply_update(state, total.gradients, means, optimizer)

    def evaluate(params: Params, batch: RowBatch) -> Scalars:
        return sums(params, batch, zero_prediction=True)

    total = jax.eval_shape(zeros)
    scalars = jax.tree.map(lambda _: abstract.step.sharding, total.sums)
    accumulated = Accumulator(shardings_of(abstract.params), scalars)
    return Programs(
        zeros=jax.jit(zeros, out_shardings=accumulated),
        gradient=jax.jit(gradient, donate_argnums=1, out_shardings=accumulated),
        update=jax.jit(update, donate_argnums=0, out_shardings=(shardings_of(abstract), None)),
        evaluate=jax.jit(evaluate),
    )


def apply_update(
    state: TrainState, gradients: Params, means: Scalars, optimizer: Optimizer
) -> tuple[TrainState, Scalars]:
    """One update; see `Programs.update`."""
    squares = [jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(gradients)]
    nonfinite = ~jnp.isfinite(jnp.stack(squares))
    finite = jnp.isfinite(means["loss"]) & ~nonfinite.any()
    rate = jnp.asarray(optimizer.learning_rate(state.step), jnp.float32)
    changed = _changed(state, gradients, rate, optimizer)
    kept = (state.params, state.opt_state, state.ema)
    params, opt_state, ema = jax.tree.map(lambda new, old: jnp.where(finite, new, old), changed, kept)
    skipped = state.skipped + (1 - finite.astype(jnp.int32))
    norm = jnp.sqrt(jnp.stack(squares).sum())
    metrics = means | {"grad_norm": norm, "lr": rate, "skipped": skipped, "nonfinite": nonfinite}
    return TrainState(state.step + 1, skipped, params, opt_state, ema), metrics


def _changed(
    state: TrainState, gradients: Params, rate: jax.Array, optimizer: Optimizer
) -> tuple[Params, Any, Params | None]:
    direction, opt_state = optimizer.transform.update(gradients, state.opt_state, state.params)
    params: Any = optax.apply_updates(state.params, optax.tree.scale(-rate, direction))
    if state.ema is None or optimizer.ema_decay is None:
        return params, opt_state, None
    return params, opt_state, moving_average(state.ema, params, decay=optimizer.ema_decay)
