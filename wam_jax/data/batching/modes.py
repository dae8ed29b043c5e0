"""The batching modes: which planner, which seating and which rungs each of them means.

                strict, padded   in the order of the stream       slots of the longest sample
                bucket           pools of each rank's stream      slots of the longest sample
                packed           even rows, or packs in a budget  samples back to back

Rows of a routed program, whose positions fix the objective, keep the order of the stream in every mode.
"""

import functools
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from wam_jax.config.schema import BatchingConfig
from wam_jax.data.batching.costs import claimed_slots
from wam_jax.data.batching.counts import TokenCounts, allocated_slots, real_tokens
from wam_jax.data.batching.planner import BucketPlanner, Planner, StreamPlanner, UpdateShape
from wam_jax.data.batching.pools import effective_pool
from wam_jax.data.batching.rungs import Ladder, choose_ladder, needed_rung
from wam_jax.data.batching.seating import Balanced, Budgeted, Dealt, Seating
from wam_jax.data.batching.shapes import budget_rung, top_rung
from wam_jax.data.drawing.draw_law import DrawLaw
from wam_jax.data.drawing.draws import DrawTable
from wam_jax.data.drawing.samplers import Sampler
from wam_jax.errors import InputError
from wam_jax.sequence.layout import RowConstants
from wam_jax.sequence.rung import Rung

_SIMULATED_CALLS = 256


def make_planner(
    batching: BatchingConfig,
    law: DrawLaw,
    sampler: Sampler,
    shape: UpdateShape,
    draws_per_epoch: int,
    constants: RowConstants,
) -> Planner:
    """The planner of a mode."""
    if batching.mode == "bucket":
        pool = effective_pool(batching.bucket_pool_size, shape.microbatch)
        return BucketPlanner(law, sampler, shape, draws_per_epoch, pool)
    free = len(law.routes) == 1 and batching.balance_ranks
    seating = _seating(batching, shape, constants, free=free)
    return StreamPlanner(law, sampler, shape, draws_per_epoch, seating)


def _seating(batching: BatchingConfig, shape: UpdateShape, constants: RowConstants, *, free: bool) -> Seating:
    ranks, microbatch = shape.ranks, shape.microbatch
    if batching.max_tokens is not None:
        packer = batching.packer or "best_fit"
        return Budgeted(ranks, microbatch, constants, batching.max_tokens, packer, pooled=free)
    if batching.mode == "packed" and free:
        return Balanced(ranks, microbatch, constants)
    return Dealt(ranks, microbatch)


def check_budget(batching: BatchingConfig, law: DrawLaw, ids: np.ndarray, constants: RowConstants) -> None:
    """Refuses a budget that some sample exceeds by itself.

    Raises:
        InputError: naming the sample and its cost.
    """
    if batching.max_tokens is None:
        return
    cost = claimed_slots(law.longest(), law.prefix_frames(), constants)
    worst = int(cost.argmax())
    if cost[worst] > batching.max_tokens:
        remedy = f"sample {ids[law.space.episodes[worst]]} alone costs {cost[worst]} tokens; raise it to that or more"
        raise InputError("data.batching.max_tokens", batching.max_tokens, remedy)


@dataclass(frozen=True)
class Shapes:
    """The shapes of the calls of one phase.

    Attributes:
        ladder: the rungs that are compiled.
        constants: what all rows share.
        need: what a call of draws [ranks, slots] needs.
        expected: tokens and slots of the simulated calls.
        calls: how many of them ran at each rung.
    """

    ladder: Ladder
    constants: RowConstants
    need: Callable[[DrawTable], Rung]
    expected: TokenCounts
    calls: tuple[int, ...]

    def rung(self, draws: DrawTable) -> Rung:
        """The rung of a call of draws [ranks, slots]."""
        return self.ladder.fit(self.need(draws))

    def summary(self) -> dict[str, Any]:
        """JSON of what is compiled and what it should be good for.

        Returns:
            `rungs`: the sizes of each, and the share of the simulated calls that ran at it. `expected_utilisation`: of
            self-attention (`all`) and of each stream in these calls, over all ranks.
        """
        shares = [count / sum(self.calls) for count in self.calls]
        rungs = [asdict(rung) | {"calls": share} for rung, share in zip(self.ladder.rungs, shares, strict=True)]
        return {"rungs": rungs, "expected_utilisation": self.expected.utilisations()}


def training_shapes(batching: BatchingConfig, planner: Planner, law: DrawLaw, constants: RowConstants) -> Shapes:
    """The shapes of training, chosen over the calls of the run's own first steps."""
    multiple, shape = _multiple(batching), planner.shape
    if batching.max_tokens is None:
        top = top_rung(law, constants, samples=shape.microbatch, multiple=multiple)
    else:
        top = budget_rung(law, constants, max_tokens=batching.max_tokens, multiple=multiple)
    steps = -(-_SIMULATED_CALLS // shape.accumulation)
    calls = (call for step in range(steps) for call in _calls(planner.plan(step).draws))
    return _shapes(batching, calls, top, constants)


def validation_shapes(batching: BatchingConfig, draws: DrawTable, law: DrawLaw, constants: RowConstants) -> Shapes:
    """The shapes of validation, whose calls [calls, ranks, slots] are all known."""
    top = top_rung(law, constants, samples=draws.shape[-1], multiple=_multiple(batching))
    return _shapes(batching, _calls(draws), top, constants)


def _shapes(batching: BatchingConfig, calls: Iterable[DrawTable], top: Rung, constants: RowConstants) -> Shapes:
    need = functools.partial(_need, constants=constants, batching=batching)
    needs, rows, expected = [], 0, TokenCounts()
    for call in calls:  # One at a time: those of many ranks are large.
        needs.append(need(call))
        rows, expected = len(call.episode), expected + real_tokens(call, constants)
    ladder = choose_ladder(needs, top, constants, limit=batching.max_compiled_shapes)
    rungs = [ladder.fit(need) for need in needs]
    for rung in rungs:
        expected += allocated_slots(rung, rows, constants)
    return Shapes(ladder, constants, need, expected, tuple(rungs.count(rung) for rung in ladder.rungs))


def _need(draws: DrawTable, *, constants: RowConstants, batching: BatchingConfig) -> Rung:
    """With a budget rows hold as many samples as fit, else always as many as a microbatch."""
    samples = draws.shape[-1] if batching.max_tokens is None else int(draws.present.sum(-1).max())
    return needed_rung(draws, constants, samples=samples, multiple=_multiple(batching))


def _multiple(batching: BatchingConfig) -> int:
    return 1 if batching.mode == "strict" else batching.pad_to_multiple_of


def _calls(draws: DrawTable) -> Iterable[DrawTable]:
    return (draws[call] for call in range(len(draws.episode)))
