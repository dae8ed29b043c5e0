"""What draws come to in batches: losses, predictions, the gradient of each draw's own loss and that of an update."""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from wam_jax.data.transport import RowBatch
from wam_jax.policies.base import Params
from wam_jax.policies.dual_expert import DualExpertPolicy
from wam_jax.tracing import Trace, record_gradients
from wam_jax.tracing.samples import Draw, Part, parts_of_samples
from wam_jax.training.mesh import put_rows
from wam_jax.training.programs import Programs

type Losses = dict[str, jax.Array]
type Velocities = tuple[jax.Array, jax.Array]


@dataclass(frozen=True)
class Outcome:
    """What one draw came to, in whatever batch.

    Attributes:
        losses: by name.
        video: float[frames, C, H, W], the velocity predicted of its own video frames, without a prefix.
        action: float[frames, A, D], that of its actions.
        gradient: of its own loss, like the parameters.
    """

    losses: dict[str, float]
    video: np.ndarray
    action: np.ndarray
    gradient: Params


@dataclass(frozen=True)
class Parts:
    """A draw's tensors, in the order of execution, and the gradient of its loss in each of them."""

    tensors: list[Part]
    gradients: list[Part]


class Reference(Protocol):
    """What draws came to, and their tensors on the way."""

    @property
    def outcomes(self) -> Mapping[Draw, Outcome]:
        """Of every draw."""
        ...

    @property
    def mean_gradient(self) -> Params:
        """Of an update of all draws."""
        ...

    def parts(self, draw: Draw) -> Parts:
        """The tensors of one."""
        ...


class Program:
    """A policy with parameters, compiled once a shape of batch: losses and gradients by JAX itself."""

    def __init__(self, policy: DualExpertPolicy, params: Params, *, x64: bool = False) -> None:
        """Args: x64: compute in float64, where the policy says so."""
        self._policy, self._params, self._x64 = policy, params, x64
        self._run = jax.jit(jax.value_and_grad(self._weighted, has_aux=True))

    def evaluate(self, batch: RowBatch, row: int, slot: int) -> tuple[Losses, Velocities, Params]:
        """Losses and predictions of a batch, and the gradient of one sample's loss."""
        with jax.enable_x64(self._x64):
            (_, (losses, velocities)), gradient = self._run(self._params, batch, _one_hot(batch, row, slot))
        return losses, velocities, gradient

    def mean_gradient(self, batches: Iterable[RowBatch], outcomes: Mapping[Draw, Outcome]) -> Params:
        """Of an update of the draws: the mean of their gradients."""
        del batches
        gradients = [outcomes[draw].gradient for draw in sorted(outcomes)]
        return jax.tree.map(lambda *leaves: np.mean(leaves, axis=0), *gradients)

    def traces(self, batch: RowBatch, row: int, slot: int) -> tuple[Trace, Trace]:
        """Every tagged tensor of a batch, and the gradient of one sample's loss in each of them."""
        with jax.enable_x64(self._x64):
            found = record_gradients(self._loss, self._params, batch, _one_hot(batch, row, slot))
        return found[1], found[2]

    def _loss(self, params: Params, batch: RowBatch, weights: jax.Array) -> jax.Array:
        return jnp.vdot(self._policy.forward_train_batch(params, batch)["loss"], weights)

    def _weighted(self, params: Params, batch: RowBatch, weights: jax.Array) -> tuple[jax.Array, Any]:
        losses, velocities = self._policy.predict_train_batch(params, batch)
        return jnp.vdot(losses["loss"], weights), (losses, velocities)


class TrainingProgram(Program):
    """The same through the gradient program that trains.

    That sums the losses of the samples that are marked as valid. A draw's own gradient is that of its batch with all
    other marks taken away, an update's that of all batches, one after the other, with the marks of the draws left.
    """

    def __init__(self, policy: DualExpertPolicy, params: Params, *, programs: Programs, mesh: Mesh) -> None:
        """Args: programs: of one sample an update, so that sums are not divided."""
        super().__init__(policy, params)
        self._programs, self._mesh = programs, mesh
        self._forward = jax.jit(policy.predict_train_batch)

    def evaluate(self, batch: RowBatch, row: int, slot: int) -> tuple[Losses, Velocities, Params]:
        losses, velocities = self._forward(self._params, batch)
        return losses, velocities, self._summed([_only(batch, [(row, slot)])])

    def mean_gradient(self, batches: Iterable[RowBatch], outcomes: Mapping[Draw, Outcome]) -> Params:
        marked = [_only(batch, [(row, slot) for _, row, slot in places(batch, outcomes)]) for batch in batches]
        return jax.tree.map(lambda leaf: np.asarray(leaf) / np.float32(len(outcomes)), self._summed(marked))

    def _summed(self, batches: Iterable[RowBatch]) -> Params:
        total = self._programs.zeros()
        for batch in batches:
            total = self._programs.gradient(self._params, total, put_rows(self._mesh, batch))
        return jax.tree.map(lambda parts: parts.sum(0), total.gradients)


class Run:
    """Draws in the batches that hold them, through one program.

    Attributes:
        outcomes: of every draw.
        company: the most samples that share a row with one of the draws.
    """

    def __init__(
        self,
        program: Program,
        batches: Iterable[RowBatch],
        draws: Sequence[Draw],
        *,
        done: Callable[[], object] = lambda: None,
    ) -> None:
        """Args: done: called after each batch."""
        self._program, self._batches, self._parts = program, list[RowBatch](), dict[Draw, Parts]()
        self.outcomes: dict[Draw, Outcome] = {}
        self.company = 0
        for batch in batches:
            for draw, row, slot in places(batch, draws):
                self.outcomes[draw] = _outcome(program, batch, row, slot)
                self.company = max(self.company, int(batch.samples.valid[row].sum()) - 1)
            self._batches.append(batch)
            done()

    @cached_property
    def mean_gradient(self) -> Params:
        """Of an update of all draws."""
        return jax.tree.map(np.asarray, self._program.mean_gradient(self._batches, self.outcomes))

    def parts(self, draw: Draw) -> Parts:
        """The tensors of one draw; recorded when first asked for."""
        if draw not in self._parts:
            batch = next(batch for batch in self._batches if places(batch, [draw]))
            ((_, row, slot),) = places(batch, [draw])
            traces = self._program.traces(batch, row, slot)
            self._parts[draw] = Parts(*(parts_of_samples(trace, batch)[draw] for trace in traces))
        return self._parts[draw]


def places(batch: RowBatch, wanted: Collection[Draw]) -> list[tuple[Draw, int, int]]:
    """Row and slot of every wanted draw that a batch holds."""
    found = []
    for row, slot in np.argwhere(batch.samples.valid):
        phase, epoch, position = batch.samples.draw[row, slot].tolist()
        if (phase, epoch, position) in wanted:
            found.append(((phase, epoch, position), int(row), int(slot)))
    return found


def _outcome(program: Program, batch: RowBatch, row: int, slot: int) -> Outcome:
    losses, (video, action), gradient = program.evaluate(batch, row, slot)
    frames, prefix = (int(n[row, slot]) for n in (batch.samples.num_frames, batch.samples.prefix_frames))
    return Outcome(
        losses={name: float(value[row, slot]) for name, value in losses.items()},
        video=np.asarray(video[row, slot, prefix : prefix + frames]),
        action=np.asarray(action[row, slot, :frames]),
        gradient=jax.tree.map(np.asarray, gradient),
    )


def _one_hot(batch: RowBatch, row: int, slot: int) -> np.ndarray:
    return _marks(batch, [(row, slot)]).astype(np.float32)


def _only(batch: RowBatch, chosen: Collection[tuple[int, int]]) -> RowBatch:
    """The batch with the marks of the chosen samples only; the others stay where they are."""
    return dataclasses.replace(batch, samples=dataclasses.replace(batch.samples, valid=_marks(batch, chosen)))


def _marks(batch: RowBatch, chosen: Collection[tuple[int, int]]) -> np.ndarray:
    marks = np.zeros(batch.samples.valid.shape, bool)
    for place in chosen:
        marks[place] = True
    return marks
