"""The data of a run: `TrainData`, from a configuration and a store to batches, step by step.

Opening it checks everything that the index can show. Steps are random access: any process starts at any step at once,
and the batches are the same in threads and in worker processes, whatever the number of either.
"""

import dataclasses
from collections.abc import Generator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from wam_jax.config.schema import Config
from wam_jax.data import contracts
from wam_jax.data.admission import check_admission
from wam_jax.data.counts import TokenCounts, count_tokens
from wam_jax.data.draw_law import DrawLaw, draw_law
from wam_jax.data.draws import DrawTable
from wam_jax.data.index import ABSENT
from wam_jax.data.materialize import Materializer
from wam_jax.data.pipeline import endless, prepared
from wam_jax.data.planner import Planner, UpdateShape, draws_per_epoch, validation_draws
from wam_jax.data.routing import objectives_of
from wam_jax.data.sample_text import text_lengths
from wam_jax.data.samplers import Replacement, RoutedReplacement, Sampler, ShuffledEpochs
from wam_jax.data.samples import SampleReader
from wam_jax.data.shapes import row_constants, top_rung
from wam_jax.data.splits import split_episodes
from wam_jax.data.store import Store
from wam_jax.data.transport import RowBatch
from wam_jax.keys import Phase
from wam_jax.sequence import Objective
from wam_jax.sequence.rung import Rung

CONTRACT_VERSION = 1


class Step(NamedTuple):
    """One update's data: this process's rows of its physical microbatches, and the token counts of all ranks."""

    batches: list[RowBatch]
    counts: TokenCounts


@dataclass(frozen=True, eq=False)
class _StepMaker:
    """What a worker needs to make steps."""

    planner: Planner
    materializer: Materializer
    rows: slice

    def __call__(self, step: int) -> Step:
        draws = self.planner.plan(step).draws
        counts = count_tokens(draws, self.materializer.rung, self.materializer.reader.constants)
        return Step([self.materializer.batch(draws[a, self.rows]) for a in range(len(draws.episode))], counts)


class TrainData:
    """Training steps and validation batches of this process's rows.

    Attributes:
        rung: static sizes of a training row.
        validation_rung: static sizes of a validation row.
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
        self.rung = self._rung(Phase.TRAIN, config.data.train_batch_size)
        self.validation_rung = self._rung(Phase.VALIDATION, config.data.val_batch_size)

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
        make = _StepMaker(self._planner, self._materializer(self.rung), self._rows)
        data = self._config.data
        return prepared(make, endless(start_step), num_workers=data.num_workers, prefetch=data.prefetch)

    def validation(self) -> list[RowBatch]:
        """This process's rows of the validation batches; read once and kept."""
        return self._validation

    @cached_property
    def _validation(self) -> list[RowBatch]:
        materializer, draws = self._materializer(self.validation_rung), self.validation_draws
        return [materializer.batch(draws[b, self._rows]) for b in range(len(draws.episode))]

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
            "split": dataclasses.asdict(config.data.split),
            "sample_construction": dataclasses.asdict(config.data.sample_construction),
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
        }

    def _law(self, phase: Phase) -> DrawLaw:
        config, store = self._config, self._store
        split = "train" if phase is Phase.TRAIN else "val"
        fraction = config.data.split.val_fraction
        episodes = split_episodes(store.index, split, source=config.data.split.source, validation_fraction=fraction)
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
        return Planner(law, _sampler(config, law, self.objective_group), shape, per_epoch)

    def _rung(self, phase: Phase, samples: int) -> Rung:
        batching = self._config.data.batching
        multiple = 1 if batching.mode == "strict" else batching.pad_to_multiple_of
        return top_rung(self._laws[phase], samples=samples, multiple=multiple)

    def _materializer(self, rung: Rung) -> Materializer:
        reader = SampleReader(self._config, self._store, self.constants)
        condition = self._store.index.extents["condition_latents"] != ABSENT
        used = contracts.wants_condition_latents(self._config.policy) and Objective.JOINT in self.objectives
        return Materializer(
            reader,
            rung,
            clean_differs=used and bool(np.any(condition)),
            video_states=not self._laws[Phase.TRAIN].prefix_frames().all(),
        )


def _epoch_items(law: DrawLaw, multiplier: float) -> int:
    """Draws of an epoch before its tail is cut: those that go once through the route with the most items."""
    most = int(np.diff(law.route_ends, prepend=0).max())
    return max(1, round(most * multiplier))


def _sampler(config: Config, law: DrawLaw, group: int) -> Sampler:
    items = len(law.space)
    if config.data.sample_construction.sample_order_mode == "epoch":
        return ShuffledEpochs(config.seed, Phase.TRAIN, items)
    if len(law.routes) == 1:
        return Replacement(config.seed, Phase.TRAIN, items)
    return RoutedReplacement(config.seed, Phase.TRAIN, law.route_ends, law.shares, group)
