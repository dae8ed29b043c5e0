"""Batches: fixed shapes, every sample in front of its slot, padding that nothing refers to."""

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np
import pytest

from tests.data.indexes import make_law
from tests.support.runs import tiny_config
from tests.support.stores import write_tiny_store
from wam_jax.config.schema import Config
from wam_jax.data.batching.counts import count_tokens
from wam_jax.data.batching.materialize import Materializer
from wam_jax.data.batching.shapes import row_constants, top_rung
from wam_jax.data.construction.samples import SampleReader
from wam_jax.data.drawing.draws import DrawTable
from wam_jax.data.drawing.samplers import Stretch
from wam_jax.data.storage.store import Store, open_store
from wam_jax.sequence.rung import Rung

LENGTHS = (3, 5, 2, 4)
CONFIG = tiny_config(
    batching={"mode": "padded", "pad_to_multiple_of": 4},
    policy={"proprio_context_mode": "per_chunk_additive"},
    backbone={"max_text_tokens": 2},
)


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    own_text = {1: {"text_context": np.ones((3, 4), np.float32)}, 2: {"text_context": np.ones((0, 4), np.float32)}}
    return open_store(write_tiny_store(tmp_path_factory.mktemp("batches") / "store", LENGTHS, overrides=own_text))


def rung_of(store: Store, config: Config = CONFIG, *, samples: int = 2) -> Rung:
    return top_rung(make_law_of(store, config), row_constants(config, store.manifest), samples=samples, multiple=4)


def materializer(store: Store, config: Config = CONFIG, *, clean_differs: bool = True) -> Materializer:
    reader = SampleReader(config, store, row_constants(config, store.manifest))
    return Materializer(reader, clean_differs=clean_differs, video_states=True)


def make_law_of(store: Store, config: Config = CONFIG):
    law = make_law(config, store.index)
    return dataclasses.replace(law, text_tokens=np.array([4, 3, 0, 4]))


def draws_of(store: Store, episodes: Sequence) -> DrawTable:
    """Whole episodes at positions of their own number, so that an episode is the same draw in any batch."""
    table = make_law_of(store).draws(Stretch(0, 0, 4), np.arange(4))
    return table[np.array(episodes)]


def batch(store: Store, episodes: list[list[int]], **options):
    rung = rung_of(store, samples=len(episodes[0]))
    return materializer(store, **options).batch(draws_of(store, episodes), rung), rung


def test_shapes_are_those_of_the_rung(store):
    made, rung = batch(store, [[0, 2], [3, 1]])
    assert rung.video_slot_frames == 8
    assert made.samples.video_latents.shape == (2, 2, 8, 3, 2, 2)
    assert made.samples.actions.shape == (2, 2, 8, 2, 2)
    assert made.layout.video_source.shape == (2, 32)
    assert made.text.shape == (2, 8, 4)
    assert made.proprio_keys is None


def test_shapes_and_types_do_not_depend_on_the_samples(store):
    one, other = (batch(store, episodes)[0] for episodes in ([[0, 2], [3, 1]], [[2, 2], [2, 2]]))
    assert jax.tree.map(lambda a: (a.shape, a.dtype), one) == jax.tree.map(lambda a: (a.shape, a.dtype), other)


def test_true_extents_travel_with_the_batch(store):
    samples = batch(store, [[0, 2], [3, 1]])[0].samples
    assert samples.num_frames.tolist() == [[3, 2], [4, 5]]
    assert samples.draw.tolist() == [[[0, 0, 0], [0, 0, 2]], [[0, 0, 3], [0, 0, 1]]]
    assert samples.valid.all()
    assert samples.draw.dtype == np.uint32


def test_padding_is_zero_and_unsupervised(store):
    samples = batch(store, [[0, 2], [3, 1]])[0].samples
    for name in ("video_latents", "clean_latents", "video_loss_mask", "actions", "action_mask", "video_proprio"):
        for (row, slot), frames in np.ndenumerate(samples.num_frames):
            assert not getattr(samples, name)[row, slot, frames:].any(), name
            assert getattr(samples, name)[row, slot, :frames].any(), name


def test_a_sample_is_the_same_with_any_neighbours_in_any_slot(store):
    alone = batch(store, [[1]])[0].samples
    for episodes, row, slot in ([[1, 0], [2, 3]], 0, 0), ([[0, 3], [2, 1]], 1, 1):
        together = batch(store, episodes)[0].samples
        for field in dataclasses.fields(alone):
            own, shared = getattr(alone, field.name)[0, 0], getattr(together, field.name)[row, slot]
            np.testing.assert_array_equal(own, shared, err_msg=field.name)


def test_no_buffer_frame_refers_to_padding(store):
    """Poison: whatever padding holds, the row buffers are filled from real frames only, and with all of them."""
    made, _ = batch(store, [[0, 2], [3, 1]])
    poisoned = made.samples.video_latents.copy()
    for (row, slot), frames in np.ndenumerate(made.samples.num_frames):
        poisoned[row, slot, frames:] = np.nan
    copies = np.stack([poisoned, poisoned], axis=2).reshape(2, -1, 3, 2, 2)
    for row, source in enumerate(made.layout.video_source):
        assert np.isfinite(copies[row, source[source >= 0]]).all()
        assert (source >= 0).sum() == 2 * made.samples.num_frames[row].sum()


def test_texts_lie_back_to_back(store):
    made, rung = batch(store, [[1, 2], [0, 1]])
    np.testing.assert_array_equal(made.text[0, :3], np.ones((3, 4)))
    assert not made.text[0, 3:].any()
    np.testing.assert_array_equal(made.text[1, :4], store.text("do reach"))
    np.testing.assert_array_equal(made.text[1, 4:7], np.ones((3, 4)))
    assert rung.text_keys == 8


def test_empty_slots_are_empty(store):
    made = materializer(store).batch(draws_of(store, [0, 1, 3]).padded(4).reshape(2, 2), rung_of(store))
    assert made.samples.valid.tolist() == [[True, True], [True, False]]
    assert made.samples.num_frames.tolist() == [[3, 5], [4, 0]]
    assert not made.samples.action_mask[1, 1].any()
    assert (made.layout.video_source[1] >= 0).sum() == 8


def test_clean_latents_are_left_out_where_no_sample_differs(store):
    assert batch(store, [[0, 1]], clean_differs=False)[0].samples.clean_latents is None


def test_proprio_tokens_lie_back_to_back(store):
    config = tiny_config(policy={"proprio_context_mode": "text_context_token"}, construction={"chunk_size": 1})
    maker = materializer(store, config)
    draws = make_law_of(store, config).draws(Stretch(0, 0, 4), np.arange(4))[np.array([[0, 2]])]
    keys = maker.batch(draws, rung_of(store, config)).proprio_keys
    assert keys is not None
    states = [store.read(episode)["proprio_context_frames"] for episode in (0, 2)]
    assert keys.shape == (1, 2 * 5, 3)
    np.testing.assert_array_equal(keys[0, :3], states[0][[0, 0, 1]])
    np.testing.assert_array_equal(keys[0, 3:5], states[1][[0, 0]])
    assert not keys[0, 5:].any()


def test_counts_tell_real_tokens_from_slots(store):
    _, rung = batch(store, [[0, 1]])
    draws = draws_of(store, [0, 1, 3]).padded(4).reshape(2, 2)
    counts = count_tokens(draws, rung, row_constants(CONFIG, store.manifest))
    assert (counts.samples, counts.video_tokens, counts.action_tokens) == (3, 2 * 12, 2 * 2 * 12)
    assert (counts.video_slots, counts.action_slots) == (2 * 2 * 2 * 8, 2 * 2 * 2 * 8 * 2)
    assert (counts.text_tokens, counts.text_slots) == (4 + 3 + 4, 2 * 8)
    assert counts.utilisation == (24 + 48) / (64 + 128)
    assert counts.utilisations() == {"all": 3 / 8, "video": 3 / 8, "action": 3 / 8, "text": 11 / 16}
