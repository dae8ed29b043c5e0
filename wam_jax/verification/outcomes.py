"""What a draw comes to in a batch: its losses, its predictions and the gradient of its own loss."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from wam_jax.data.transport import RowBatch
from wam_jax.policies.base import Params
from wam_jax.policies.dual_expert import DualExpertPolicy
from wam_jax.tracing import Trace, record_gradients
from wam_jax.tracing.samples import Draw, Part, parts_of_samples


@dataclass(frozen=True)
class Outcome:
    """What one draw came to, in whatever batch.

    Attributes:
        losses: by name.
        video: float[frames, C, H, W], the velocity predicted of its own video frames, a prefix included.
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

    def parts(self, draw: Draw) -> Parts:
        """The tensors of one."""
        ...


class Program:
    """A policy with parameters, compiled once a shape of batch."""

    def __init__(self, policy: DualExpertPolicy, params: Params, *, x64: bool = False) -> None:
        """Args: x64: compute in float64, where the policy says so."""
        self._policy, self._params, self._x64 = policy, params, x64
        self._run = jax.jit(jax.value_and_grad(self._weighted, has_aux=True))

    def outcomes(self, batch: RowBatch, wanted: Collection[Draw]) -> dict[Draw, Outcome]:
        """The outcomes of the wanted draws of a batch, each with the vjp of its own loss."""
        return {draw: self._outcome(batch, row, slot) for draw, row, slot in places(batch, wanted)}

    def traces(self, batch: RowBatch, draw: Draw) -> tuple[Trace, Trace]:
        """Every tagged tensor of a batch, and the gradient of a draw's loss in each of them."""
        ((_, row, slot),) = places(batch, [draw])
        weights = _one_hot(batch, row, slot)
        with jax.enable_x64(self._x64):
            _, trace, gradients = record_gradients(self._loss, self._params, batch, weights)
        return trace, gradients

    def _loss(self, params: Params, batch: RowBatch, weights: jax.Array) -> jax.Array:
        return jnp.vdot(self._policy.forward_train_batch(params, batch)["loss"], weights)

    def _weighted(self, params: Params, batch: RowBatch, weights: jax.Array) -> tuple[jax.Array, Any]:
        losses, velocities = self._policy.predict_train_batch(params, batch)
        return jnp.vdot(losses["loss"], weights), (losses, velocities)

    def _outcome(self, batch: RowBatch, row: int, slot: int) -> Outcome:
        with jax.enable_x64(self._x64):
            (_, (losses, (video, action))), gradient = self._run(self._params, batch, _one_hot(batch, row, slot))
        frames = int(batch.samples.num_frames[row, slot])
        shown = frames + int(batch.samples.prefix_frames[row, slot])
        return Outcome(
            losses={name: float(value[row, slot]) for name, value in losses.items()},
            video=np.asarray(video[row, slot, :shown]),
            action=np.asarray(action[row, slot, :frames]),
            gradient=jax.tree.map(np.asarray, gradient),
        )


class Run:
    """Draws in the batches that hold them, through one program.

    Attributes:
        outcomes: of every draw.
    """

    def __init__(self, program: Program, batches: Iterable[RowBatch], draws: Sequence[Draw]) -> None:
        self._program, self._batches, self._parts = program, list[RowBatch](), dict[Draw, Parts]()
        self.outcomes: dict[Draw, Outcome] = {}
        for batch in batches:
            self.outcomes |= program.outcomes(batch, draws)
            self._batches.append(batch)

    def parts(self, draw: Draw) -> Parts:
        """The tensors of one draw; recorded when first asked for."""
        if draw not in self._parts:
            batch = next(batch for batch in self._batches if places(batch, [draw]))
            traces = self._program.traces(batch, draw)
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


def _one_hot(batch: RowBatch, row: int, slot: int) -> np.ndarray:
    weights = np.zeros(batch.samples.valid.shape, np.float32)
    weights[row, slot] = 1
    return weights
