"""A policy and data that compile in milliseconds: least squares with a stack of layers, on batches of random numbers.

Their batches are row batches with little in them: inputs [R, S, WIDTH] where the latents belong, targets [R, S] where
the actions do. Their losses have the names of real ones.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from wam_jax.data.batching.counts import TokenCounts
from wam_jax.data.transport import RowBatch, RowTiles, SampleSlots
from wam_jax.model.shards import whole_array

WIDTH, LAYERS, SLOTS = 4, 2, 3
COUNTS = TokenCounts(3, 60, 90, 20, 30, 0, 1)


class Step(NamedTuple):
    """One update."""

    batches: list[RowBatch]
    counts: TokenCounts = COUNTS


class LinearPolicy:
    """Predicts a number of each sample."""

    supported_batching_modes = frozenset({"strict"})

    def init(self, key: jax.Array) -> dict[str, Any]:
        """Parameters named like those of the model: stacked ones under `blocks`."""
        stack, head = jax.random.split(key)
        return {
            "blocks": {
                "mix": {
                    "kernel": jax.random.normal(stack, (LAYERS, WIDTH, WIDTH)) / 2,
                    "bias": jnp.zeros((LAYERS, WIDTH)),
                }
            },
            "head": {"kernel": jax.random.normal(head, (WIDTH, 1)), "bias": jnp.zeros(1)},
        }

    def forward_train_batch(
        self, params: Any, batch: RowBatch, *, zero_prediction: bool = False
    ) -> dict[str, jax.Array]:
        """Squared errors, split over two names."""
        hidden, targets = batch.samples.video_latents, batch.samples.actions
        mix = whole_array(params["blocks"]["mix"]["kernel"], (LAYERS, WIDTH, WIDTH), jnp.dtype("float32"))
        head = whole_array(params["head"]["kernel"], (WIDTH, 1), jnp.dtype("float32"))
        for layer in range(LAYERS):
            hidden = jnp.tanh(hidden @ mix[layer] + params["blocks"]["mix"]["bias"][layer])
        error = (hidden @ head)[..., 0] + params["head"]["bias"] - targets
        losses = _losses(error)
        if zero_prediction:
            losses |= {f"zero_{name}": value for name, value in _losses(targets).items()}
        return losses


def _losses(error: jax.Array) -> dict[str, jax.Array]:
    return {"loss": error**2, "video_loss": 0.75 * error**2, "action_loss": 0.25 * error**2}


def make_batch(seed: int, *, rows: int = 1, slots: int = SLOTS, valid: int | None = None) -> RowBatch:
    """A host batch; row r is that of `seed + r`; the first `valid` slots of each hold samples."""
    drawn = [np.random.default_rng(seed + row).normal(size=(slots, WIDTH)) for row in range(rows)]
    inputs = np.stack(drawn).astype(np.float32)
    held = np.broadcast_to(np.arange(slots) < (slots if valid is None else valid), (rows, slots)).copy()
    nothing: dict[str, Any] = dict.fromkeys(field.name for field in dataclasses.fields(SampleSlots))
    samples = SampleSlots(**nothing | {"valid": held, "video_latents": inputs, "actions": inputs.sum(-1)})
    layout: Any = None
    return RowBatch(samples=samples, layout=layout, tiles=RowTiles(), text=None, proprio_keys=None, seed=np.uint32(0))


@dataclass
class FakeData:
    """Random access to updates of `microbatches` batches each.

    Attributes:
        poisoned: steps (updates done before) whose inputs are NaN.
        read: the steps that were asked for.
    """

    rows: int = 1
    microbatches: int = 2
    poisoned: frozenset[int] = frozenset()
    read: list[int] = dataclasses.field(default_factory=list)

    @property
    def draws_per_step(self) -> int:
        """Samples of an update."""
        return self.rows * self.microbatches * SLOTS

    def steps(self, start: int) -> Iterator[Step]:
        """Without end."""
        while True:
            self.read.append(start)
            batches = [make_batch(100 * start + part * self.rows, rows=self.rows) for part in range(self.microbatches)]
            if start in self.poisoned:
                batches[0].samples.video_latents[...] = np.nan
            yield Step(batches)
            start += 1

    def validation(self) -> list[RowBatch]:
        """Two batches, the second one not full."""
        return [make_batch(-1 + 10**6, rows=self.rows), make_batch(10**6, rows=self.rows, valid=1)]
