"""What of a tensor is a sample's own: its frames wherever they lie, its text keys, and nothing where it has none."""

import numpy as np
import pytest

from tests.support.runs import tiny_config
from tests.support.stores import write_tiny_store
from wam_jax.data.loader import TrainData
from wam_jax.data.storage.store import open_store
from wam_jax.tracing.samples import parts_of_samples
from wam_jax.tracing.tape import Recorded

TOKENS = 4


def _batch(path, mode, **store):
    opened = open_store(write_tiny_store(path / "store", **store))
    data = TrainData(tiny_config(batching={"mode": mode}), opened, rows=range(1))
    return next(data.steps()).batches[0]


def _trace(stream, values):
    return {"x": Recorded(values, stream, None)}


@pytest.mark.parametrize("mode", ["padded", "packed"])
def test_frames_are_those_of_the_sample_in_its_own_order(mode, tmp_path):
    batch = _batch(tmp_path, mode)
    frames = batch.layout.video_run.shape[1]
    numbers = np.arange(frames * TOKENS, dtype=np.float32).reshape(1, frames * TOKENS, 1)
    found = {draw: parts[0].value for draw, parts in parts_of_samples(_trace("video", numbers), batch).items()}
    assert len(found) == batch.samples.valid.sum() == 2
    slots = batch.layout.video_slot[0].reshape(2, 2, -1)
    for slot in range(2):
        count = int(batch.samples.num_frames[0, slot] + batch.samples.prefix_frames[0, slot])
        value = found[tuple(batch.samples.draw[0, slot].tolist())]
        first = value.reshape(2, count, TOKENS)[..., 0] / TOKENS
        np.testing.assert_array_equal(first, slots[slot, :, :count])
    taken = np.concatenate([value.ravel() for value in found.values()])
    assert len(np.unique(taken)) == len(taken)


@pytest.mark.parametrize("mode", ["padded", "packed"])
def test_text_keys_are_those_of_the_sample(mode, tmp_path):
    texts = {i: {"text_context": np.full((2 + i, 4), i + 1, np.float32)} for i in range(4)}
    batch = _batch(tmp_path, mode, overrides=texts)
    found = parts_of_samples(_trace("text", batch.text), batch)
    for slot in range(2):
        value = found[tuple(batch.samples.draw[0, slot].tolist())][0].value
        assert len(np.unique(value)) == 1
        assert len(value) == value[0, 0] + 1


def test_a_sample_without_text_has_no_positions(tmp_path):
    batch = _batch(tmp_path, "packed", overrides={i: {"text_context": np.zeros((0, 4), np.float32)} for i in range(4)})
    values = np.ones((1, 8, 4), np.float32)
    assert {parts[0].value.shape for parts in parts_of_samples(_trace("text", values), batch).values()} == {(0, 4)}
