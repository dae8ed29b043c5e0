"""Which draws make which update, and who gets them: step plans, without reading a payload.

Update s consumes the global draws [s E, (s + 1) E), E = accumulation x microbatch x ranks. They are dealt like cards,
one a rank and round, so that rank r sees every ranks-th draw from r on:

    E = 8, 2 ranks, microbatch 2, accumulation 2      rank 0   rank 1
    first physical microbatch                          0 2      1 3
    second                                             4 6      5 7

A plan is a function of (configuration, index, step): any process computes the plan of all ranks, in any order.
"""

from dataclasses import dataclass

from wam_jax.data.draw_law import DrawLaw
from wam_jax.data.draws import DrawTable, concatenate
from wam_jax.data.samplers import Sampler, Stretch, stretches, sweep
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

    def deal(self, draws: DrawTable) -> DrawTable:
        """[E] to [accumulation, ranks, microbatch]."""
        return draws.reshape(self.accumulation, self.microbatch, self.ranks).transpose(0, 2, 1)


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
    """One update: `draws` is [accumulation, ranks, microbatch]."""

    step: int
    draws: DrawTable


@dataclass(frozen=True, eq=False)
class Planner:
    """Random access to the plans of training steps."""

    law: DrawLaw
    sampler: Sampler
    shape: UpdateShape
    draws_per_epoch: int

    def plan(self, step: int) -> StepPlan:
        """The plan of global step `step`, in the time of its own draws."""
        count = self.shape.draws
        parts = [self._draws(stretch) for stretch in stretches(step * count, count, self.draws_per_epoch)]
        return StepPlan(step, self.shape.deal(concatenate(parts)))

    def _draws(self, stretch: Stretch) -> DrawTable:
        return self.law.draws(stretch, self.sampler.items(stretch.epoch, stretch.start, stretch.count))


def validation_draws(law: DrawLaw, count: int, *, ranks: int, microbatch: int) -> DrawTable:
    """`count` draws spread evenly over the items of a held-out split: [batches, ranks, microbatch].

    Every route has its share of them. The last batch is filled up with empty slots.
    """
    stretch = Stretch(epoch=0, start=0, count=count)
    draws = law.draws(stretch, sweep(law.route_ends, law.shares, count))
    batches = -(-count // (ranks * microbatch))
    shape = UpdateShape(accumulation=batches, ranks=ranks, microbatch=microbatch)
    return shape.deal(draws.padded(shape.draws))
