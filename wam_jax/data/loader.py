"""The data of a run: `TrainData`, from a configuration and a store to batches, step by step.

Opening it checks everything that the index can show. Steps are random access: any process starts at any step at once,
and the batches are the same in threads and in worker processes, whatever the number of either.
"""

import dataclasses
import functools
import operator
from collections.abc import Generator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from wam_jax.config.schema import Config, SampleConstructionConfig, SplitConfig
from wam_jax.data.admission import check_admission
from wam_jax.data.batching.counts import TokenCounts, count_tokens
from wam_jax.data.batching.materialize import Materializer
from wam_jax.data.batching.modes import Shapes, check_budget, make_planner, training_shapes, validation_shapes
from wam_jax.data.batching.planner import BucketPlanner, Planner, UpdateShape, draws_per_epoch, validation_draws
from wam_jax.data.batching.shapes import row_constants
from wam_jax.data.construction.sample_text import text_lengths
from wam_jax.data.construction.samples import SampleReader
from wam_jax.data.drawing import contracts
from wam_jax.data.drawing.draw_law import DrawLaw, draw_law
from wam_jax.data.drawing.draws import DrawTable
from wam_jax.data.drawing.routing import objectives_of
from wam_jax.data.drawing.samplers import Replacement, RoutedReplacement, Sampler, ShuffledEpochs, WeightedReplacement
from wam_jax.data.drawing.weights import row_weights
from wam_jax.data.pipeline import endless, prepared
from wam_jax.data.storage.index import ABSENT
from wam_jax.data.storage.mixture import Mixture
from wam_jax.data.storage.splits import split_episodes
from wam_jax.data.storage.store import Store
from wam_jax.data.transport import RowBatch
from wam_jax.keys import Phase
from wam_jax.sequence import Objective

CONTRACT_VERSION = 1


class Step(NamedTuple):
    """One update's data: this process's rows of its physical microbatches, and the token counts of all ranks."""

    batches: list[RowBatch]
    counts: TokenCounts


@dataclass(frozen=True, eq=False)
class StepMaker:
    """What a worker needs to make the step of any number."""

    planner: Planner
    shapes: Shapes
    materializer: Materializer
    rows: slice

    def __call__(self, step: int) -> Step:
        draws = self.planner.plan(step).draws
        calls = [draws[call] for call in range(len(draws.episode))]
        rungs = [self.shapes.rung(call) for call in calls]
        counts = [count_tokens(call, rung, self.shapes.constants) for call, rung in zip(calls, rungs, strict=True)]
        make = self.materializer.batch
        batches = [make(call[self.rows], rung) for call, rung in zip(calls, rungs, strict=True)]
        return Step(batches, functools.reduce(operator.add, counts))


class TrainData:
    """Training steps and validation batches of this process's rows.

    Attributes:
        shapes: static sizes of the training rows.
        validation_shapes: static sizes of the validation rows.
        constants: what all rows share.
        draws_per_epoch: draws of one epoch of training.
        draws_per_step: draws of one update, over all ranks.
        objective_group: consecutive positions that share a route.
    """

    def __init__(
        self,
        config: Config,
        store: Store,
        *,
        rows: range,
        ranks: int | None = None,
        objective_group: int | None = None,
    ) -> None:
        """
        Args:
            config: the run's, checked.
            store: where the trajectories are.
            rows: the ranks whose rows this process owns; a rank is a device is a row.
            ranks: of all processes; by default this process owns all, from 0 on.
            objective_group: of the run that is resumed, where the configuration leaves it open; by default the ranks.
        Raises:
            InputError: a split is empty or too small for one update, or the store does not fit the configuration.
        """
        self._config, self._store = config, store
        self._rows, self._ranks = slice(rows.start, rows.stop), rows.stop if ranks is None else ranks
        self.objective_group = config.data.routing.objective_group or objective_group or self._ranks
        self.constants = row_constants(config, store.manifest)
        self._laws = {phase: self._law(phase) for phase in Phase}
        self._planner = self._plan_training()
        self.draws_per_epoch, self.draws_per_step = self._planner.draws_per_epoch, self._planner.shape.draws
        batching = config.data.batching
        check_budget(batching, self._laws[Phase.TRAIN], store.index.ids, self.constants)
        self.shapes = training_shapes(batching, self._planner, self._laws[Phase.TRAIN], self.constants)
        self.validation_shapes = validation_shapes(
            batching, self.validation_draws, self._laws[Phase.VALIDATION], self.constants
        )

    @property
    def planner(self) -> Planner:
        """Random access to the plans of training steps."""
        return self._planner

    @cached_property
    def validation_draws(self) -> DrawTable:
        """The held-out draws, the same at every validation: [batches, ranks, microbatch], empty slots at the end."""
        return validation_draws(
            self._laws[Phase.VALIDATION],
            self._config.validation.num_draws,
            ranks=self._ranks,
            microbatch=self._config.data.val_batch_size,
        )

    def steps(self, start_step: int = 0) -> Generator[Step]:
        """The steps from `start_step` on, without end, prepared ahead; `close()` stops the threads or workers."""
        data = self._config.data
        return prepared(self.step_maker(), endless(start_step), num_workers=data.num_workers, prefetch=data.prefetch)

    def step_maker(self) -> StepMaker:
        """Makes single steps of this process's rows; a copy of it in another process makes the same ones."""
        return StepMaker(self._planner, self.shapes, self.materializer(), self._rows)

    def validation(self) -> list[RowBatch]:
        """This process's rows of the validation batches; read once and kept."""
        return self._validation

    @cached_property
    def _validation(self) -> list[RowBatch]:
        make, draws = self.materializer().batch, self.validation_draws
        rungs = [self.validation_shapes.rung(draws[b]) for b in range(len(draws.episode))]
        return [make(draws[b, self._rows], rung) for b, rung in enumerate(rungs)]

    def empty_batches(self) -> list[RowBatch]:
        """One batch without samples for each rung of training, cheapest first: what to compile ahead for."""
        make, draws = self.materializer().batch, self._planner.plan(0).draws
        nothing = draws[0, self._rows].reshape(-1).seated(np.full((self._rows.stop - self._rows.start, 1), -1))
        return [make(nothing, rung) for rung in self.shapes.ladder.rungs]

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """What the run's draws train, ascending."""
        return objectives_of(self._laws[Phase.TRAIN].routes)

    def contract(self) -> dict[str, Any]:
        """JSON of everything the stream of training draws depends on; equal contracts continue one another.

        How an update is split into ranks, accumulation and microbatches is no part of it.
        """
        config, routes = self._config, self._laws[Phase.TRAIN].routes
        return {
            "version": CONTRACT_VERSION,
            "store": self._store.fingerprint,
            "seed": config.seed,
            "split": _split_contract(config.data.split),
            "sample_construction": _construction_contract(config.data.sample_construction),
            "sequence_contract": self._laws[Phase.TRAIN].sequence.contract.name,
            "routes": [[route.source, route.objective.label, route.share] for route in routes],
            "counterfactual_sources": list(config.data.routing.counterfactual_sources),
            "length_multiplier": config.data.routing.length_multiplier,
            # One route leaves nothing to share.
            "objective_group": self.objective_group if len(routes) > 1 else None,
            "video_prefix_frames": config.policy.video_prefix_frames,
            "text_dropout": config.training.text_dropout,
            "draws_per_epoch": self.draws_per_epoch,
            "draws_per_step": self.draws_per_step,
            "bucket": self._bucket_contract(),
        }

    def _bucket_contract(self) -> dict[str, int] | None:
        """Buckets sort each rank's own stream, so there the split of an update is part of the stream."""
        if not isinstance(self._planner, BucketPlanner):
            return None
        return {"pool": self._planner.pool} | dataclasses.asdict(self._planner.shape)

    def _law(self, phase: Phase) -> DrawLaw:
        config, store = self._config, self._store
        split = "train" if phase is Phase.TRAIN else "val"
        chosen = config.data.split
        episodes = split_episodes(
            store.index,
            split,
            source=chosen.source,
            validation_fraction=chosen.val_fraction,
            validation_tasks=chosen.val_tasks,
            validation_episodes=chosen.val_episodes,
        )
        tokens = text_lengths(store.index, store.manifest, max_text_tokens=config.backbone.max_text_tokens)
        law = draw_law(config, store.index, episodes, phase, text_tokens=tokens)
        batch_size = config.data.train_batch_size if phase is Phase.TRAIN else config.data.val_batch_size
        check_admission(config, store.manifest, store.index, law, microbatch=batch_size)
        return law

    def _plan_training(self) -> Planner:
        config, law = self._config, self._laws[Phase.TRAIN]
        shape = UpdateShape(
            accumulation=config.training.gradient_accumulation_steps,
            ranks=self._ranks,
            microbatch=config.data.train_batch_size,
        )
        drop_last = config.data.batching.drop_last_train
        items = _epoch_items(law, config.data.routing.length_multiplier)
        per_epoch = draws_per_epoch(items, shape, drop_last=drop_last)
        sampler = _sampler(config, law, self._store, self.objective_group)
        return make_planner(config.data.batching, law, sampler, shape, per_epoch, self.constants)

    def materializer(self) -> Materializer:
        """Makes transport arrays of any draws of this run."""
        reader = SampleReader(self._config, self._store, self.constants)
        condition = self._store.index.extents["condition_latents"] != ABSENT
        used = contracts.wants_condition_latents(self._config.policy) and Objective.JOINT in self.objectives
        return Materializer(
            reader,
            clean_differs=used and bool(np.any(condition)),
            video_states=not self._laws[Phase.TRAIN].prefix_frames().all(),
        )


def _epoch_items(law: DrawLaw, multiplier: float) -> int:
    """Draws of an epoch before its tail is cut: those that go once through the route with the most items."""
    most = int(np.diff(law.route_ends, prepend=0).max())
    return max(1, round(most * multiplier))


def _sampler(config: Config, law: DrawLaw, store: Store, group: int) -> Sampler:
    seed, construction, items = config.seed, config.data.sample_construction, len(law.space)
    if construction.sample_order_mode == "epoch":
        return ShuffledEpochs(seed, Phase.TRAIN, items)
    mixture = store if isinstance(store, Mixture) else None
    weights = row_weights(law, store.index, construction, mixture=mixture)
    if len(law.routes) > 1:
        return RoutedReplacement(seed, Phase.TRAIN, law.route_ends, law.shares, group, weights)
    if weights is not None:
        return WeightedReplacement(seed, Phase.TRAIN, weights)
    return Replacement(seed, Phase.TRAIN, items)


def _split_contract(split: SplitConfig) -> dict[str, Any]:
    """JSON of which episodes train; the order in which held-out ones are named is no part of it."""
    named = {"task": {"val_tasks": sorted(split.val_tasks)}, "list": {"val_episodes": sorted(split.val_episodes)}}
    return {"source": split.source, "val_fraction": split.val_fraction} | named.get(split.source, {})


def _construction_contract(construction: SampleConstructionConfig) -> dict[str, Any]:
    """JSON of how samples are made and weighed; the order in which task weights are given is no part of it."""
    weights = sorted([name, weight] for name, weight in construction.task_weights)
    return dataclasses.asdict(construction) | {"task_weights": weights}
