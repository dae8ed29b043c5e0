"""Which draws make which update, and who gets them: step plans, without reading a payload.

Update s consumes the global draws [s E, (s + 1) E), E = accumulation x microbatch x ranks, whoever gets them. By
default they are dealt like cards, one a rank and round, so that rank r sees every ranks-th draw from r on:

    E = 8, 2 ranks, microbatch 2, accumulation 2      rank 0   rank 1
    first physical microbatch                          0 2      1 3
    second                                             4 6      5 7

Length buckets are the exception: they sort each rank's own stream in pools, so that an update consumes E draws of the
same epoch, not the next E. A plan is a function of (configuration, index, step): any process computes the plan of all
ranks, in any order.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from wam_jax.data.batching.dealing import in_order
from wam_jax.data.batching.pools import pool_bounds, sorted_pool
from wam_jax.data.batching.seating import Seating
from wam_jax.data.drawing.draw_law import DrawLaw
from wam_jax.data.drawing.draws import DrawTable, concatenate
from wam_jax.data.drawing.samplers import Sampler, Stretch, stretches, sweep
from wam_jax.errors import InputError


@dataclass(frozen=True)
class UpdateShape:
    """How the draws of one update are spread.

    Attributes:
        accumulation: physical microbatches of an update.
        ranks: rows of a physical microbatch, over all processes.
        microbatch: samples of a row.
    """

    accumulation: int
    ranks: int
    microbatch: int

    @property
    def draws(self) -> int:
        """Draws of an update, E."""
        return self.accumulation * self.ranks * self.microbatch


def draws_per_epoch(items: int, shape: UpdateShape, *, drop_last: bool) -> int:
    """Draws of an epoch over `items` items.

    With `drop_last` the tail that fills no update is cut, before anything is grouped. Without it, the epoch must be
    whole microbatches on every rank, and updates run on across its end.

    Raises:
        InputError: there is not one update in an epoch, or a tail that may not be cut.
    """
    row = f"data.train_batch_size {shape.microbatch} x ranks {shape.ranks}"
    if drop_last:
        if items < shape.draws:
            sizes = f"{row} x training.gradient_accumulation_steps {shape.accumulation}"
            raise InputError("draws of an epoch", items, f"one update takes {shape.draws} = {sizes}; lower one of them")
        return items // shape.draws * shape.draws
    microbatch = shape.microbatch * shape.ranks
    if items % microbatch:
        remedy = f"an epoch of {items} draws must be a multiple of {microbatch} = {row}; set it to True or change these"
        raise InputError("data.batching.drop_last_train", False, remedy)
    return items


@dataclass(frozen=True, eq=False)
class StepPlan:
    """One update: `draws` is [calls, ranks, slots], empty slots included."""

    step: int
    draws: DrawTable


class Planner(Protocol):
    """Random access to the plans of training steps.

    Attributes:
        law: how positions become draws.
        shape: how many draws an update has.
        sampler: the items of each position.
        draws_per_epoch: draws of an epoch.
    """

    @property
    def law(self) -> DrawLaw: ...

    @property
    def shape(self) -> UpdateShape: ...

    @property
    def sampler(self) -> Sampler: ...

    @property
    def draws_per_epoch(self) -> int: ...

    def plan(self, step: int) -> StepPlan:
        """The plan of global step `step`, in the time of the draws it looks at."""
        ...


@dataclass(frozen=True, eq=False)
class StreamPlanner:
    """Updates are consecutive stretches of the global stream, seated as `seating` says."""

    law: DrawLaw
    sampler: Sampler
    shape: UpdateShape
    draws_per_epoch: int
    seating: Seating

    def plan(self, step: int) -> StepPlan:
        draws = self.stream(step * self.shape.draws, self.shape.draws)
        return StepPlan(step, draws.seated(self.seating.seats(draws)))

    def stream(self, first: int, count: int) -> DrawTable:
        """The global draws [first, first + count): [count]."""
        parts = stretches(first, count, self.draws_per_epoch)
        return concatenate([self.law.draws(p, self.sampler.items(p.epoch, p.start, p.count)) for p in parts])


@dataclass(frozen=True, eq=False)
class BucketPlanner:
    """Each rank's own stream, sorted by length in pools (`wam_jax.data.batching.pools`)."""

    law: DrawLaw
    sampler: Sampler
    shape: UpdateShape
    draws_per_epoch: int
    pool: int

    def plan(self, step: int) -> StepPlan:
        calls = range(step * self.shape.accumulation, (step + 1) * self.shape.accumulation)
        draws = concatenate([self._call(call) for call in calls])
        return StepPlan(step, draws.reshape(-1, self.shape.ranks, self.shape.microbatch))

    def _call(self, call: int) -> DrawTable:
        """One microbatch of every rank: [ranks * microbatch], rank by rank."""
        ranks, microbatch, stream = self.shape.ranks, self.shape.microbatch, self.draws_per_epoch // self.shape.ranks
        epoch, start = divmod(call * microbatch, stream)
        first, last = pool_bounds(start, self.pool, stream)
        stretch = Stretch(epoch, first * ranks, (last - first) * ranks)
        draws = self.law.draws(stretch, self.sampler.items(epoch, stretch.start, stretch.count)).reshape(-1, ranks)
        order = sorted_pool(draws.num_frames + draws.prefix_frames)[start - first : start - first + microbatch]
        return draws[order, np.arange(ranks)].transpose(1, 0).reshape(-1)


def validation_draws(law: DrawLaw, count: int, *, ranks: int, microbatch: int) -> DrawTable:
    """`count` draws spread evenly over the items of a held-out split: [batches, ranks, microbatch].

    Every route has its share of them. The last batch is filled up with empty slots.
    """
    stretch = Stretch(epoch=0, start=0, count=count)
    draws = law.draws(stretch, sweep(law.route_ends, law.shares, count))
    batches = -(-count // (ranks * microbatch))
    return draws.padded(batches * ranks * microbatch).seated(
        in_order(batches * ranks * microbatch, ranks=ranks, microbatch=microbatch)
    )
