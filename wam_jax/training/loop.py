"""The loop over updates: data, gradients, update, and now and then a checkpoint or a validation.

Each is due at fixed numbers of updates, so that a resumed run does what the uninterrupted one does; a new run directory
begins with a checkpoint. A checkpoint is begun before the validation of the same step, which then runs while it is
written; where that validation is missing after a resume, it is made up for first.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from jax.sharding import Mesh

from wam_jax.config.schema import TrainingConfig
from wam_jax.data.transport import RowBatch
from wam_jax.training.checkpoint import CheckpointWriter
from wam_jax.training.interrupt import StopRequest, Votes
from wam_jax.training.locate import Json
from wam_jax.training.mesh import put_rows
from wam_jax.training.pending import Counts, Pending, PendingUpdates
from wam_jax.training.phases import DataPhase
from wam_jax.training.programs import Programs, Scalars
from wam_jax.training.sinks import Recorder
from wam_jax.training.state import TrainState
from wam_jax.training.tree import leaf_names
from wam_jax.training.validation import validate


class HostStep(Protocol):
    """One update on the host: this process's rows of every microbatch, and its size."""

    @property
    def batches(self) -> Sequence[RowBatch]: ...

    @property
    def counts(self) -> Counts: ...


@dataclass(frozen=True)
class Loop:
    """Everything the loop works with.

    Attributes:
        config: the pace.
        mesh: the devices.
        programs: the compiled work.
        steps: the steps of the stream of draws from a given one on, without end.
        held_out: the validation batches.
        phase: where in the stream of draws the updates are.
        draws: where in it those of each update are; None where they are no stretch of it.
        recorder: takes the rows.
        checkpoints: takes the states.
        meta: what a checkpoint says of the run, by the updates done.
        stop: whether somebody asked to stop.
    """

    config: TrainingConfig
    mesh: Mesh
    programs: Programs
    steps: Callable[[int], Iterator[HostStep]]
    held_out: Sequence[RowBatch]
    phase: DataPhase
    draws: Callable[[int], range] | None
    recorder: Recorder
    checkpoints: CheckpointWriter
    meta: Callable[[int], Json]
    stop: StopRequest

    def run(self, state: TrainState, step: int) -> tuple[TrainState, int]:
        """Trains from `step` updates done to `num_steps`, or until asked to stop; returns where it is.

        The state is donated. Rows are written and the checkpoint of the last step is durable on return.

        Raises:
            NonFiniteError: an update was not finite and `training.nonfinite` is "stop".
        """
        pending = PendingUpdates(
            self.recorder.write,
            leaf_names(state.params),
            draws=self.draws,
            stop=self.config.nonfinite == "stop",
            log_every=self.config.log_every,
            hear=self.stop.hear,
        )
        votes = Votes(self.stop, self.mesh)
        self._save(state, step)
        self._rest(state, step)
        steps = self.steps(step + self.phase.shift)
        pending.restart_clock()
        while step < self.config.num_steps and not self.stop.requested:
            begun = time.perf_counter()
            host = next(steps)
            waited = time.perf_counter() - begun
            state, metrics = self._update(state, host)
            step += 1
            pending.add(Pending(step, metrics, host.counts, waited, votes.cast()))
            if self._is_due(step, self.config.checkpoint_every) or self._is_due(step, self.config.validate_every):
                pending.drain()
                self._rest(state, step)
                pending.restart_clock()
        pending.drain()
        if self.stop.requested:
            self._save(state, step)
        self.checkpoints.wait()
        return state, step

    def _update(self, state: TrainState, host: HostStep) -> tuple[TrainState, Scalars]:
        total = self.programs.zeros()
        for batch in host.batches:
            total = self.programs.gradient(state.params, total, put_rows(self.mesh, batch))
        return self.programs.update(state, total)

    def _rest(self, state: TrainState, step: int) -> None:
        """What is due after `step` updates; nothing is under way on the device."""
        if self._is_due(step, self.config.checkpoint_every):
            self._save(state, step)
        due = self._is_due(step, self.config.validate_every) and step not in self.recorder.validated
        if due and not self.stop.requested:
            means = validate(self.programs.evaluate, state.evaluated, self.held_out, self.mesh)
            self.recorder.write({"phase": "val", "step": step} | means)

    def _save(self, state: TrainState, step: int) -> None:
        self.recorder.sync()
        self.checkpoints.save(step, state, self.meta(step))

    def _is_due(self, step: int, every: int) -> bool:
        return step % every == 0 or step == self.config.num_steps
