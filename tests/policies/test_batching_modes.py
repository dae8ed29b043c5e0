"""Batching changes nothing: the same draws have the same losses and gradients in every mode, split and rung.

Episodes of 2 to 9 frames, some without condition latents, texts of different lengths and none. What a draw's loss and
gradient should be is taken from padded rows of one sample each, which share a row with nobody.
"""

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from tests.support.batched import Draw, Result, Runner, assert_equal
from tests.support.networks import SMALL_NETWORK, UNEQUAL_EXPERTS, policy_for
from tests.support.runs import tiny_config
from tests.support.stores import write_tiny_store
from wam_jax.config.schema import Config
from wam_jax.data.loader import TrainData
from wam_jax.data.storage.store import Store, open_store

LENGTHS = (3, 9, 2, 5, 7, 2, 4, 6, 8, 3)
DRAWS = 8

MODES: dict[str, dict[str, Any]] = {
    "padded": {"batching": {"mode": "padded"}},
    "padded to multiples": {"batching": {"mode": "padded", "pad_to_multiple_of": 4}},
    "bucket": {"batching": {"mode": "bucket", "bucket_pool_size": 8}},
    "packed": {"batching": {"mode": "packed"}},
    "packed in order": {"batching": {"mode": "packed", "balance_ranks": False}},
    "packed, other split": {"batching": {"mode": "packed"}, "microbatch": 4, "accumulation": 1},
    "budget, best fit": {"batching": {"mode": "packed", "max_tokens": 170}},
    "budget, first fit": {"batching": {"mode": "packed", "max_tokens": 170, "packer": "first_fit"}},
    "budget, in order": {
        "batching": {"mode": "packed", "max_tokens": 170, "packer": "in_order", "balance_ranks": False}
    },
    "padded, on tiles of their own": {"batching": {"mode": "padded", "tile_alignment": 16}},
    "packed, on tiles of their own": {"batching": {"mode": "packed", "tile_alignment": 16}},
    "budget, on tiles of their own": {"batching": {"mode": "packed", "max_tokens": 400, "tile_alignment": 16}},
    "strict, one by one": {"batching": {"mode": "strict"}, "microbatch": 1, "accumulation": 4},
}


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    texts = {1: (3, 4), 2: (0, 4), 5: (6, 4)}
    own = {i: {"text_context": np.random.default_rng(i).normal(size=s).astype(np.float32)} for i, s in texts.items()}
    path = tmp_path_factory.mktemp("modes") / "store"
    return open_store(write_tiny_store(path, LENGTHS, splits=["train"] * 9 + ["val"], overrides=own))


def _config(batching: dict[str, Any], *, shapes: int = 1, microbatch: int = 2, accumulation: int = 2) -> Config:
    return tiny_config(
        data={"train_batch_size": microbatch, "val_batch_size": 1},
        construction={"chunk_size": 3, "window_size": 6},
        batching={"max_compiled_shapes": shapes, **batching},
        policy={"proprio_context_mode": "per_chunk_additive", **UNEQUAL_EXPERTS},
        training={"gradient_accumulation_steps": accumulation},
        backbone=SMALL_NETWORK,
    )


@pytest.fixture(scope="module")
def runner(store) -> Runner:
    return Runner(store, _config({"mode": "padded"}))


@pytest.fixture(scope="module")
def alone(runner) -> dict[Draw, Result]:
    return runner.results(_config({"mode": "padded"}, microbatch=1, accumulation=4), draws=DRAWS)


def test_the_draws_alone_are_different_and_real(alone):
    assert len(alone) == DRAWS
    assert len({result.losses["loss"] for result in alone.values()}) == DRAWS
    assert all(result.losses["loss"] > 0.1 for result in alone.values())


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_changes_no_loss_and_no_gradient(mode, runner, alone):
    fields = dict(MODES[mode])
    assert_equal(runner.results(_config(fields.pop("batching"), **fields), draws=DRAWS), alone)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["padded", "packed", "budget, best fit"])
def test_a_rung_changes_no_loss_and_no_gradient(mode, runner, alone):
    assert_equal(runner.results(_config(MODES[mode]["batching"], shapes=4), draws=DRAWS), alone)


def test_ranks_change_no_loss(runner, alone):
    """Rows of two ranks: the same four draws an update, dealt to two rows of two microbatches of one."""
    config = _config({"mode": "packed"}, microbatch=1, accumulation=2)
    assert_equal(runner.results(config, draws=DRAWS, ranks=2), alone)


def test_poisoned_padding_changes_nothing_at_all(runner, store):
    config = _config({"mode": "padded"})
    batch = next(iter(TrainData(config, store, rows=range(1)).steps(0))).batches[0]
    weights = np.ones(batch.samples.valid.shape, np.float32)
    clean = runner.program(runner.params, batch, weights)
    for poison in (np.nan, 1e4):
        dirty = runner.program(runner.params, _poisoned(batch, poison), weights)
        jax.tree.map(np.testing.assert_array_equal, _own(batch, clean), _own(batch, dirty))


def _own(batch: Any, outputs: Any) -> Any:
    """Outputs without what is predicted behind the samples' own frames, which nobody reads."""
    (loss, (losses, velocities)), gradient = outputs
    own = np.arange(velocities[0].shape[2]) < batch.samples.num_frames[..., None]
    return loss, losses, [np.asarray(v)[own] for v in velocities], gradient


def _poisoned(batch: Any, value: float) -> Any:
    """The batch with everything behind each sample's own frames and text replaced."""
    arrays = {}
    for name in ("video_latents", "clean_latents", "actions", "action_mask", "video_proprio", "action_proprio"):
        array = getattr(batch.samples, name).copy()
        for (row, slot), frames in np.ndenumerate(batch.samples.num_frames):
            array[row, slot, frames:] = value
        arrays[name] = array
    text = batch.text.copy()
    text[:, int(batch.layout.text_run_ranges[..., 1].max()) :] = value
    assert (text == value).any() or np.isnan(text).any()
    return dataclasses.replace(batch, samples=dataclasses.replace(batch.samples, **arrays), text=text)


def test_a_peer_changes_nothing_at_all(runner, store):
    """Its floats moved by 100 in the same compiled program: bitwise the same losses and gradients."""
    batch = next(iter(TrainData(_config({"mode": "packed"}), store, rows=range(1)).steps(0))).batches[0]
    moved = dataclasses.replace(
        batch.samples, **{name: _shift(getattr(batch.samples, name)) for name in ("video_latents", "actions")}
    )
    weights = np.array([[1, 0]], np.float32)
    (_, (losses, _)), gradient = runner.program(runner.params, batch, weights)
    (_, (others, _)), moved_gradient = runner.program(runner.params, dataclasses.replace(batch, samples=moved), weights)
    assert losses["loss"][0, 0] == others["loss"][0, 0]
    assert losses["loss"][0, 1] != others["loss"][0, 1]
    jax.tree.map(np.testing.assert_array_equal, gradient, moved_gradient)


def _shift(array: np.ndarray) -> np.ndarray:
    moved = array.copy()
    moved[:, 1] += 100
    return moved


@pytest.mark.parametrize("mode", ["padded", "packed"])
@pytest.mark.parametrize("field", ["video_latents", "clean_latents", "actions", "action_proprio", "text"])
def test_not_even_a_nan_passes_between_samples_on_tiles_of_their_own(field, mode, runner, store):
    config = _config({"mode": mode, "tile_alignment": 16})
    policy = policy_for(config, store)
    batch = next(iter(TrainData(config, store, rows=range(1)).steps(0))).batches[0]

    @jax.jit
    def outputs(batch):
        losses, (video, action) = policy.predict_train_batch(runner.params, batch)
        return losses["loss"], video, action

    assert batch.samples.valid.all()
    clean = outputs(batch)
    for struck in range(2):
        if field == "text" and not _own_text(batch, struck):
            continue
        dirty = outputs(_struck(batch, field, struck))
        assert not np.isfinite(dirty[0][0, struck])
        for before, after in zip(clean, dirty, strict=True):
            np.testing.assert_array_equal(before[0, 1 - struck], after[0, 1 - struck])


def _struck(batch: Any, field: str, sample: int) -> Any:
    """The batch with everything that one sample has of a field NaN."""
    if field == "text":
        text = batch.text.copy()
        text[0, _own_text(batch, sample)] = np.nan
        return dataclasses.replace(batch, text=text)
    array = getattr(batch.samples, field).copy()
    array[0, sample] = np.nan
    return dataclasses.replace(batch, samples=dataclasses.replace(batch.samples, **{field: array}))


def _own_text(batch: Any, sample: int) -> list[int]:
    """The text keys that the first frame of a sample reads."""
    layout = batch.layout
    frame = layout.video_slot.reshape(2, -1)[sample, 0]
    ranges = layout.text_run_ranges[0, layout.video_text_run[0, frame]]
    return [key for start, stop in ranges for key in range(start, stop)]
