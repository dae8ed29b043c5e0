"""What a run takes of each device's memory, part by part, at its two fullest moments.

    a gradient program runs     state, accumulated gradients, two microbatches, the program's temporaries
    the update runs             state, accumulated gradients, what the update gives beside a new state, its temporaries

State is parameters, optimizer and moving average. Two microbatches, because the next one is on its way while one is
worked on. The CUDA context, communication buffers and fragmentation are outside of this: they are what `usable` leaves.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax

from wam_jax.planning.abstract import AbstractRun
from wam_jax.planning.compiling import Compiled

_MICROBATCHES = 2


@dataclass(frozen=True)
class Memory:
    """Bytes of one device.

    Attributes:
        parameters: the device's parts.
        optimizer: its moments and counters.
        average: moving average of the parameters, 0 where none is kept.
        gradients: what an update accumulates.
        batches: two microbatches of the largest rung.
        gradient_temporaries: of the gradient program that takes most.
        update_temporaries: of the update, with what it gives beside the new state.
        saved_activations: of `gradient_temporaries`, what is kept for the backward pass: an estimate by shapes.
        usable: what there may be in all.
    """

    parameters: int
    optimizer: int
    average: int
    gradients: int
    batches: int
    gradient_temporaries: int
    update_temporaries: int
    saved_activations: int
    usable: int

    @property
    def peak(self) -> int:
        """The fullest moment."""
        resident = self.parameters + self.optimizer + self.average + self.gradients
        return resident + max(self.batches + self.gradient_temporaries, self.update_temporaries)

    @property
    def spare(self) -> int:
        """What is left at the fullest moment; below 0 the run does not fit."""
        return self.usable - self.peak


def memory_of(
    run: AbstractRun, *, gradient_temporaries: int, update_temporaries: int, saved_activations: int, usable: int
) -> Memory:
    """The memory of a run whose programs take these; the rest follows from shapes and shardings."""
    return Memory(
        parameters=device_bytes(run.state.params),
        optimizer=device_bytes(run.state.opt_state),
        average=device_bytes(run.state.ema),
        gradients=device_bytes(run.total),
        batches=_MICROBATCHES * device_bytes(run.batches[-1]),
        gradient_temporaries=gradient_temporaries,
        update_temporaries=update_temporaries,
        saved_activations=saved_activations,
        usable=usable,
    )


def compiled_memory(run: AbstractRun, gradients: Sequence[Compiled], update: Compiled, *, usable: int) -> Memory:
    """The memory of a run with these programs."""
    fullest = max(gradients, key=lambda program: program.temporaries)
    return memory_of(
        run,
        gradient_temporaries=fullest.temporaries,
        update_temporaries=update.temporaries + update.outputs - update.aliased,
        saved_activations=fullest.saved,
        usable=usable,
    )


def device_bytes(tree: Any) -> int:
    """Of an abstract tree with shardings, the bytes on each device."""
    return sum(math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
