"""Batching changes nothing: the same draws have the same losses and gradients in every mode, split and rung.

Episodes of 2 to 9 frames, some without condition latents, texts of different lengths and none. What a draw's loss and
gradient should be is taken from padded rows of one sample each, which share a row with nobody.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.networks import SMALL_NETWORK, UNEQUAL_EXPERTS, policy_for, random_params
from tests.support.runs import tiny_config
from tests.support.stores import write_tiny_store
from wam_jax.config.schema import Config
from wam_jax.data.loader import TrainData
from wam_jax.data.store import Store, open_store

LENGTHS = (3, 9, 2, 5, 7, 2, 4, 6, 8, 3)
DRAWS = 8
Draw = tuple[int, int]

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


class Result(NamedTuple):
    """What a draw came to: its losses by name, and (of some) the gradient of its loss."""

    losses: dict[str, float]
    gradient: Any


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


class Runner:
    """Runs the draws of a configuration; every configuration shares the compiled programs of its shapes."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.policy = policy_for(_config({"mode": "padded"}), store)
        self.params = random_params(self.policy)
        self._program = jax.jit(jax.value_and_grad(self._weighted, has_aux=True))

    def _weighted(self, params, batch, weights):
        losses = self.policy.forward_train_batch(params, batch)
        return jnp.vdot(losses["loss"], weights), losses

    def results(self, config: Config, *, ranks: int = 1, gradients: bool = True) -> dict[Draw, Result]:
        found: dict[Draw, Result] = {}
        for batch in self._batches(config, ranks):
            for row, slot in np.argwhere(batch.samples.valid):
                weights = np.zeros(batch.samples.valid.shape, np.float32)
                weights[row, slot] = 1
                (_, losses), gradient = self._program(self.params, batch, weights)
                _, epoch, position = batch.samples.draw[row, slot].tolist()
                values = {name: float(value[row, slot]) for name, value in losses.items()}
                assert (epoch, position) not in found
                found[epoch, position] = Result(values, gradient if gradients else None)
        return found

    def _batches(self, config: Config, ranks: int) -> Iterator[Any]:
        data = TrainData(config, self.store, rows=range(ranks))
        for step in range(DRAWS // data.draws_per_step):
            yield from next(iter(data.steps(step))).batches


@pytest.fixture(scope="module")
def runner(store) -> Runner:
    return Runner(store)


@pytest.fixture(scope="module")
def alone(runner) -> dict[Draw, Result]:
    return runner.results(_config({"mode": "padded"}, microbatch=1, accumulation=4))


def _assert_equal(found: dict[Draw, Result], alone: dict[Draw, Result]) -> None:
    assert found.keys() == alone.keys()
    for draw, (losses, gradient) in found.items():
        for name, value in losses.items():
            np.testing.assert_allclose(value, alone[draw].losses[name], 2e-5, 2e-6, err_msg=f"{draw} {name}")
        for ours, theirs in zip(*map(jax.tree.leaves, (gradient, alone[draw].gradient)), strict=True):
            np.testing.assert_allclose(ours, theirs, 3e-4, 3e-6, err_msg=str(draw))


def test_the_draws_alone_are_different_and_real(alone):
    assert len(alone) == DRAWS
    assert len({result.losses["loss"] for result in alone.values()}) == DRAWS
    assert all(result.losses["loss"] > 0.1 for result in alone.values())


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_changes_no_loss_and_no_gradient(mode, runner, alone):
    fields = dict(MODES[mode])
    _assert_equal(runner.results(_config(fields.pop("batching"), **fields)), alone)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["padded", "packed", "budget, best fit"])
def test_a_rung_changes_no_loss_and_no_gradient(mode, runner, alone):
    _assert_equal(runner.results(_config(MODES[mode]["batching"], shapes=4)), alone)


def test_ranks_change_no_loss(runner, alone):
    """Rows of two ranks: the same four draws an update, dealt to two rows of two microbatches of one."""
    config = _config({"mode": "packed"}, microbatch=1, accumulation=2)
    _assert_equal(runner.results(config, ranks=2), alone)


def test_poisoned_padding_changes_nothing_at_all(runner, store):
    config = _config({"mode": "padded"})
    batch = next(iter(TrainData(config, store, rows=range(1)).steps(0))).batches[0]
    weights = np.ones(batch.samples.valid.shape, np.float32)
    clean = runner._program(runner.params, batch, weights)
    for poison in (np.nan, 1e4):
        dirty = runner._program(runner.params, _poisoned(batch, poison), weights)
        jax.tree.map(np.testing.assert_array_equal, clean, dirty)


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
    (_, losses), gradient = runner._program(runner.params, batch, weights)
    (_, others), moved_gradient = runner._program(runner.params, dataclasses.replace(batch, samples=moved), weights)
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
        video, action = policy.velocities(runner.params, batch)
        return policy.forward_train_batch(runner.params, batch)["loss"], video, action

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
