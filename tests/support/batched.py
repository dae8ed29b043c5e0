"""Runs the draws of a configuration batch by batch and keeps what each draw came to, to be compared between modes."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tests.support.networks import policy_for, random_params
from wam_jax.config.schema import Config
from wam_jax.data.loader import TrainData
from wam_jax.data.storage.store import Store
from wam_jax.data.transport import RowBatch

type Draw = tuple[int, int]
"""Epoch and position in the epoch."""


class Result(NamedTuple):
    """What a draw came to.

    Attributes:
        losses: by name.
        boundaries: float32[4, ...] flattened: the predicted first and last frame, of the video and of the actions.
        gradient: of the draw's own loss.
    """

    losses: dict[str, float]
    boundaries: list[np.ndarray]
    gradient: Any


class Runner:
    """Runs the draws of configurations that have one network; they share the compiled programs of their shapes."""

    def __init__(self, store: Store, config: Config) -> None:
        self.store = store
        self.policy = policy_for(config, store)
        self.params = random_params(self.policy)
        self.program = jax.jit(jax.value_and_grad(self._weighted, has_aux=True))

    def _weighted(self, params, batch, weights):
        losses, velocities = self.policy.predict_train_batch(params, batch)
        return jnp.vdot(losses["loss"], weights), (losses, velocities)

    def results(self, config: Config, *, draws: int, ranks: int = 1) -> dict[Draw, Result]:
        """The first draws of the stream, each with the vjp of its own loss."""
        found: dict[Draw, Result] = {}
        for batch in self._batches(config, draws, ranks):
            for row, slot in np.argwhere(batch.samples.valid):
                weights = np.zeros(batch.samples.valid.shape, np.float32)
                weights[row, slot] = 1
                (_, (losses, velocities)), gradient = self.program(self.params, batch, weights)
                _, epoch, position = batch.samples.draw[row, slot].tolist()
                values = {name: float(value[row, slot]) for name, value in losses.items()}
                assert (epoch, position) not in found
                boundaries = _boundaries(batch, velocities, row, slot)
                found[epoch, position] = Result(values, boundaries, jax.tree.map(np.asarray, gradient))
        return found

    def _batches(self, config: Config, draws: int, ranks: int) -> Iterator[RowBatch]:
        data = TrainData(config, self.store, rows=range(ranks))
        for step in range(draws // data.draws_per_step):
            yield from next(iter(data.steps(step))).batches


def _boundaries(batch: RowBatch, velocities: Any, row: int, slot: int) -> list[np.ndarray]:
    """First and last of the sample's own frames."""
    frames, prefix = int(batch.samples.num_frames[row, slot]), int(batch.samples.prefix_frames[row, slot])
    video, action = (np.asarray(v[row, slot]) for v in velocities)
    return [video[prefix], video[prefix + frames - 1], action[0], action[frames - 1]]


def assert_equal(found: dict[Draw, Result], expected: dict[Draw, Result]) -> None:
    """The gates of float32: of the outputs 2e-6 absolute and 2e-5 relative, of gradients 3e-6 and 3e-4."""
    assert found.keys() == expected.keys()
    for draw, result in found.items():
        for name, value in result.losses.items():
            np.testing.assert_allclose(value, expected[draw].losses[name], 2e-5, 2e-6, err_msg=f"{draw} {name}")
        for name, ours, theirs in zip(
            ("first video", "last video", "first action", "last action"),
            result.boundaries,
            expected[draw].boundaries,
            strict=True,
        ):
            np.testing.assert_allclose(ours, theirs, 2e-5, 4e-6, err_msg=f"{draw}, {name} frame")
        pairs = zip(*map(jax.tree.leaves, (result.gradient, expected[draw].gradient)), strict=True)
        for ours, theirs in pairs:
            np.testing.assert_allclose(ours, theirs, 3e-4, 3e-6, err_msg=str(draw))
