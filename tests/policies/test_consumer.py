"""The boundary is open: another architecture trains on the same rows, without a change to planner or transport.

The consumer here predicts each video frame from the one before it, with one matrix, and knows nothing of actions.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.runs import tiny_config
from tests.support.stores import write_tiny_store
from wam_jax.data.loader import TrainData
from wam_jax.data.storage.store import Store, open_store
from wam_jax.data.transport import RowBatch
from wam_jax.errors import InputError
from wam_jax.policies.base import Params, check_batching_mode
from wam_jax.training.run import make_policy

PIXELS = 3 * 2 * 2


@dataclass(frozen=True)
class NextFrame:
    """x[t + 1] = x[t] W."""

    supported_batching_modes: frozenset[str] = field(default=frozenset({"padded", "packed"}))

    def init(self, key: jax.Array) -> Params:
        return {"kernel": jax.random.normal(key, (PIXELS, PIXELS)) / PIXELS}

    def forward_train_batch(
        self, params: Params, batch: RowBatch, *, zero_prediction: bool = False
    ) -> dict[str, jax.Array]:
        del zero_prediction
        latents, count = batch.samples.video_latents, batch.samples.num_frames[..., None]
        frames = latents.reshape(*latents.shape[:3], PIXELS)
        error = jnp.square(frames[:, :, :-1] @ params["kernel"] - frames[:, :, 1:]).mean(-1)
        own = jnp.arange(1, frames.shape[2]) < count
        return {"loss": jnp.where(own, error, 0).sum(-1) / jnp.maximum(1, count[..., 0] - 1)}


def _store(path: Path, *, slots: int) -> Store:
    return open_store(write_tiny_store(path / "store", lengths=(3, 5, 2, 4, 6, 3), slots=slots))


def _losses(store: Store, **batching: Any) -> dict[int, float]:
    policy, found = NextFrame(), {}
    params = policy.init(jax.random.key(0))
    data = TrainData(tiny_config(batching=batching), store, rows=range(1))
    for step in range(2):
        for batch in next(iter(data.steps(step))).batches:
            loss = policy.forward_train_batch(params, batch)["loss"]
            for row, slot in np.argwhere(batch.samples.valid):
                found[int(batch.samples.draw[row, slot, 2])] = float(loss[row, slot])
    return found


@pytest.mark.parametrize("slots", [2, 0], ids=["actions", "empty actions"])
def test_another_consumer_has_the_same_losses_in_every_mode_it_declares(slots, tmp_path):
    store = _store(tmp_path, slots=slots)
    padded, packed = _losses(store, mode="padded"), _losses(store, mode="packed")
    aligned = _losses(store, mode="packed", tile_alignment=16)
    assert padded.keys() == packed.keys() == aligned.keys() == set(range(4))
    assert padded == pytest.approx(packed, rel=1e-6)
    assert aligned == pytest.approx(packed, rel=1e-6)
    assert len(set(padded.values())) == 4


def test_the_policy_of_two_experts_needs_actions(tmp_path):
    with pytest.raises(InputError, match="actions_per_frame of the data = 0: must be at least 1"):
        make_policy(tiny_config(), _store(tmp_path, slots=0))


def test_a_mode_that_is_not_declared_is_refused_with_what_is():
    check_batching_mode(NextFrame(), "packed")
    with pytest.raises(InputError, match=r"data\.batching\.mode = 'bucket': NextFrame executes: packed, padded"):
        check_batching_mode(NextFrame(), "bucket")
    with pytest.raises(InputError, match="NextFrame executes: none"):
        check_batching_mode(NextFrame(frozenset()), "packed")
