"""The compiled programs of a run: gradients of a microbatch, the update, the losses of a validation batch.

An update is a Python loop of gradient programs over its microbatches and one update program. With E samples in an
update (all rows, all microbatches) the loss is `sum of the samples' losses / E`: every sample weighs the same wherever
it was put. Each program compiles once per shape of its batch; the update compiles once.

A gradient program is `shard_map`: every rank computes the losses and gradients of its own rows, and ranks exchange
nothing but parameters, gathered over "fsdp", and gradients, summed over "fsdp" in float32 (`wam_jax.model.shards`).
What the microbatches add up to stays apart for each group of the "data" axis; the update sums it over them, once.

An update whose loss or gradient is not finite changes nothing but the counters, on the device, whatever the host then
decides (`wam_jax.training.nonfinite`).
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import jax
import jax.numpy as jnp
import optax
from jax.sharding import NamedSharding, PartitionSpec

from wam_jax.data.transport import RowBatch
from wam_jax.decode.aggregate import COUNT, means_over_samples, sums_over_samples
from wam_jax.policies.base import Params, TrainPolicy
from wam_jax.sequence import Objective
from wam_jax.training.mesh import AXES, DATA, replicated
from wam_jax.training.optimizer import Optimizer, moving_average
from wam_jax.training.ranks import on_each_rank, stacked, sum_whole_gradients
from wam_jax.training.state import TrainState, shardings_of

type Scalars = dict[str, jax.Array]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Accumulator:
    """What the microbatches of an update have added up to.

    Attributes:
        gradients: float32[data, ...] like the parameters, of the samples of each group of the "data" axis.
        sums: float32[ranks] by name: losses and metrics summed over the samples of each rank.
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
    mesh, own = abstract.step.sharding.mesh, _OwnRows(policy, tuple(objectives), samples_per_update, abstract.params)
    names = jax.eval_shape(own.loss, abstract.params, batch)[1]
    specs = _accumulator_specs(abstract.params, names)
    shardings = jax.tree.map(functools.partial(NamedSharding, mesh), specs)
    own_gradient = on_each_rank(own.gradient, abstract.params, out_specs=specs)
    own_sums = on_each_rank(own.zero_compared_sums, abstract.params, out_specs=PartitionSpec())

    def zeros() -> Accumulator:
        groups = mesh.shape[DATA]
        gradients = jax.tree.map(lambda leaf: jnp.zeros((groups, *leaf.shape), jnp.float32), abstract.params)
        return Accumulator(gradients, {name: jnp.zeros(mesh.size) for name in names})

    def gradient(params: Params, total: Accumulator, batch: RowBatch) -> Accumulator:
        return jax.tree.map(jnp.add, total, own_gradient(params, batch))

    def update(state: TrainState, total: Accumulator) -> tuple[TrainState, Scalars]:
        total = jax.tree.map(lambda parts: parts.sum(0), total)
        means = means_over_samples(total.sums | {COUNT: jnp.float32(samples_per_update)})
        del means[COUNT]
        return apply_update(state, total.gradients, means, optimizer)

    def evaluate(params: Params, batch: RowBatch) -> Scalars:
        return own_sums(params, batch)

    return Programs(
        zeros=jax.jit(zeros, out_shardings=shardings),
        gradient=jax.jit(gradient, donate_argnums=1, out_shardings=shardings),
        update=jax.jit(update, donate_argnums=0, out_shardings=(shardings_of(abstract), replicated(mesh))),
        evaluate=jax.jit(evaluate),
    )


@dataclass(frozen=True)
class _OwnRows:
    """What a rank computes of its rows, with the parameters that it holds."""

    policy: TrainPolicy
    objectives: tuple[Objective, ...]
    samples_per_update: int
    abstract: Params

    def gradient(self, params: Params, batch: RowBatch) -> Accumulator:
        """What its rows add, every array with a leading axis to stack the ranks' along."""
        gradients, sums = jax.grad(self.loss, has_aux=True)(params, batch)
        return stacked(Accumulator(sum_whole_gradients(gradients, self.abstract), sums))

    def loss(self, params: Params, batch: RowBatch) -> tuple[jax.Array, Scalars]:
        """Its samples' share of the update's loss, and their sums."""
        sums = self._sums(params, batch, zero_prediction=False)
        return sums["loss"] / self.samples_per_update, sums

    def zero_compared_sums(self, params: Params, batch: RowBatch) -> Scalars:
        """Sums over the samples of all ranks, those of the zero prediction among them."""
        return jax.lax.psum(self._sums(params, batch, zero_prediction=True), AXES)

    def _sums(self, params: Params, batch: RowBatch, *, zero_prediction: bool) -> Scalars:
        losses = self.policy.forward_train_batch(params, batch, zero_prediction=zero_prediction)
        return sums_over_samples(losses, batch.samples, self.objectives)


def _accumulator_specs(abstract: Params, names: Iterable[str]) -> Any:
    """How the parts of an `Accumulator` lie on the mesh."""
    gradients = jax.tree.map(lambda leaf: PartitionSpec(DATA, *leaf.sharding.spec), abstract)
    return Accumulator(gradients, cast(Any, dict.fromkeys(names, PartitionSpec(AXES))))


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
