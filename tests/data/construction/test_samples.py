"""Samples: one draw, one record, one contract; nothing outside the segment, no error without the sample's name."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from tests.data.indexes import make_law
from tests.support.runs import tiny_config
from tests.support.stores import rewrite_episode, write_tiny_store
from wam_jax.data.batching.shapes import row_constants
from wam_jax.data.construction.samples import Sample, SampleReader
from wam_jax.data.drawing.draws import DrawTable
from wam_jax.data.drawing.samplers import Stretch
from wam_jax.data.storage.payloads import episode_file
from wam_jax.data.storage.store import open_store
from wam_jax.data.storage.tensorio import encode_tensors
from wam_jax.errors import InputError

OWN_TEXT = {
    "text_context": np.arange(12, dtype=np.float32).reshape(3, 4),
    "negative_text_context": -np.ones((3, 4), np.float32),
}


CONDITIONAL = {"window_size": 3, "history_frames": 1, "chunk_origin": 1, "singleton_frame": 0}


def write(path: Path, **options) -> Path:
    return write_tiny_store(path / "store", (3, 5, 7, 4), payload="safetensors", overrides={1: OWN_TEXT}, **options)


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    return write(tmp_path_factory.mktemp("samples"))


def a_draw(episode: int, start: int, frames: int, **changes) -> DrawTable:
    """One draw of chunk 2, window 4, history 1 unless changed."""
    values = {"episode": episode, "segment_start": start, "num_frames": frames, "frame_shift": start}
    values |= {"chunk_size": 2, "window_size": 4, "history_frames": 1, "singleton_frame": -1, "num_text": 4}
    values |= changes
    names = [field.name for field in dataclasses.fields(DrawTable)]
    return DrawTable(**{name: np.array(values.get(name, 0)) for name in names})


def read(path: Path, draw: DrawTable, **rooms) -> Sample:
    config, store = tiny_config(**rooms), open_store(path, check=False)
    return SampleReader(config, store, row_constants(config, store.manifest)).read(draw)


def test_a_segment_holds_its_frames(path):
    whole, cut = read(path, a_draw(2, 0, 7)), read(path, a_draw(2, 2, 4))
    np.testing.assert_array_equal(cut.video_latents, whole.video_latents[2:6])
    np.testing.assert_array_equal(cut.clean_latents, whole.clean_latents[2:6])
    np.testing.assert_array_equal(cut.actions[1:], whole.actions[3:6])
    assert cut.video_latents.dtype == cut.actions.dtype == cut.action_mask.dtype == np.float32
    assert cut.video_latents.shape == (4, 3, 2, 2)
    assert cut.actions.shape == (4, 2, 2)


def test_clean_latents_are_the_condition_latents_unless_unused(path):
    stored = open_store(path).read(2)
    used, unused = (read(path, a_draw(2, 0, 7), policy={"use_condition_latents": use}) for use in (True, False))
    np.testing.assert_array_equal(used.clean_latents, stored["condition_latents"].swapaxes(0, 1))
    np.testing.assert_array_equal(unused.clean_latents, stored["video_latents"].swapaxes(0, 1))


def test_group_0_of_a_cut_segment_is_zero_and_masked(path):
    cut = read(path, a_draw(2, 2, 4))
    assert not cut.actions[0].any()
    assert cut.action_mask.tolist() == [np.zeros((2, 2)).tolist()] + [np.ones((2, 2)).tolist()] * 3
    np.testing.assert_array_equal(cut.row.geometry.action_valid, [False] * 2 + [True] * 6)


@pytest.mark.parametrize("start", [0, 2])
def test_group_0_is_supervised_by_option(path, start):
    sample = read(path, a_draw(2, start, 4), construction={"fill_group": "supervised", "fill_value": "first"})
    assert sample.action_mask.all()
    np.testing.assert_array_equal(sample.actions[0], np.tile(sample.actions[1, 0], (2, 1)))


def test_a_missing_action_mask_is_all_ones(tmp_path):
    path = write(tmp_path)
    arrays = {name: array for name, array in open_store(path).read(2).items() if name != "action_mask"}
    (path / episode_file(2)).write_bytes(encode_tensors(arrays))
    assert read(path, a_draw(2, 0, 7)).action_mask.all()


def test_video_loss_starts_after_the_history(path):
    assert read(path, a_draw(2, 0, 7, history_frames=3)).video_loss_mask.tolist() == [False] * 3 + [True] * 4


def test_the_row_knows_the_geometry_of_the_draw(path):
    row = read(path, a_draw(2, 3, 4, window_size=6), policy={"history_stream_visibility": "video_only"}).row
    geometry = row.geometry
    assert (geometry.num_frames, geometry.chunk_size, geometry.window_size) == (4, 2, 6)
    assert (geometry.history, geometry.program, geometry.singleton_frame) == ("video_only", "joint", None)
    assert (row.frame_shift, row.num_text, row.num_proprio, row.mode_token) == (3, 4, 0, False)


def test_text_comes_from_the_payload_or_from_the_cache(path):
    store = open_store(path)
    np.testing.assert_array_equal(read(path, a_draw(1, 0, 5, num_text=3)).text, OWN_TEXT["text_context"])
    np.testing.assert_array_equal(read(path, a_draw(0, 0, 3)).text, store.text("do reach"))


def test_dropped_text_becomes_the_negative_context(path):
    own = read(path, a_draw(1, 0, 5, num_text=3, drop_text=True)).text
    np.testing.assert_array_equal(own, OWN_TEXT["negative_text_context"])
    np.testing.assert_array_equal(read(path, a_draw(0, 0, 3, drop_text=True)).text, open_store(path).text(""))


@pytest.mark.parametrize(("program", "objective"), [("forward_dynamics", 1), ("inverse_dynamics", 2)])
def test_a_conditional_sample(path, program, objective):
    """No text, its own video as context, frame 0 and its actions out of both losses, none of the joint options."""
    draw = a_draw(1, 0, 5, num_text=3, objective=objective, **CONDITIONAL)
    options = {
        "construction": {"fill_group": "supervised", "fill_value": "first"},
        "loss_range": {"loss_frame_start": 3},
    }
    sample = read(path, draw, policy={"program": program}, **options)
    assert not sample.text.any()
    np.testing.assert_array_equal(sample.clean_latents, sample.video_latents)
    assert sample.video_loss_mask.tolist() == [False] + [True] * 4
    assert not sample.actions[0].any()
    assert sample.action_mask.any((1, 2)).tolist() == [False] + [True] * 4
    geometry = sample.row.geometry
    assert (geometry.boundary_only, geometry.history, geometry.singleton_frame) == (True, "video_only", 0)


def test_a_draw_that_its_program_does_not_train_is_refused(path):
    with pytest.raises(InputError, match=r"sample ep1: objective = 'action_conditioned_video': .*joint trains 'joint'"):
        read(path, a_draw(1, 0, 5, num_text=3, objective=1, **CONDITIONAL))


PREFIX = {"program": "joint", "sequence_contract": "prefix_frame", "proprio_context_mode": "per_chunk_additive"}
CONTEXT = PREFIX | {"sequence_contract": "rollout_parity_single_frame_perchunk_proprio"}


@pytest.mark.parametrize(("start", "shown"), [(0, 0), (3, 2)])
def test_a_prefix_shows_the_frame_before_the_segment(path, start, shown):
    """At an episode's start there is none before: the first frame itself."""
    stored = open_store(path).read(2)
    sample = read(path, a_draw(2, start, 4, prefix_frames=1), policy=PREFIX)
    for copy in (sample.video_latents, sample.clean_latents):
        np.testing.assert_array_equal(copy[0], stored["condition_latents"][:, shown])
        np.testing.assert_array_equal(copy[1:], stored["video_latents"][:, start : start + 4].swapaxes(0, 1))
    assert sample.video_loss_mask.tolist() == [False] + [True] * 4
    assert sample.actions.shape == (4, 2, 2)
    anchor, states = stored["proprio_context_frames"][shown], stored["proprio_context_frames"]
    np.testing.assert_array_equal(sample.action_proprio, [anchor, anchor, states[start + 1], states[start + 1]])
    assert sample.video_proprio is None


def test_the_same_segment_with_and_without_a_prefix_differs_in_nothing_else(path):
    without = read(
        path, a_draw(2, 3, 4), policy=PREFIX | {"sequence_contract": "default", "use_condition_latents": False}
    )
    behind = read(path, a_draw(2, 3, 4, prefix_frames=1), policy=PREFIX)
    for name in ("actions", "action_mask", "text"):
        np.testing.assert_array_equal(getattr(behind, name), getattr(without, name))
    np.testing.assert_array_equal(behind.clean_latents[1:], without.clean_latents)


def test_a_prefix_needs_condition_latents(tmp_path):
    path = write_tiny_store(tmp_path / "store", (3, 5), with_condition=False)
    with pytest.raises(InputError, match=r"sample ep0: condition_latents = None"):
        read(path, a_draw(0, 0, 3, prefix_frames=1), policy=PREFIX)


def test_a_context_frame_is_outside_of_both_losses_whatever_fills_its_actions(path):
    construction = {"fill_group": "supervised", "fill_value": "first", "target_alignment": "next_after_context"}
    sample = read(path, a_draw(2, 2, 4, chunk_origin=1), policy=CONTEXT, construction=construction)
    assert sample.video_loss_mask.tolist() == [False, True, True, True]
    assert sample.action_mask.any((1, 2)).tolist() == [False, True, True, True]
    assert not np.any(np.asarray(sample.row.geometry.action_valid)[:2])
    states = open_store(path).read(2)["proprio_context_frames"]
    np.testing.assert_array_equal(sample.action_proprio, states[[2, 2, 2, 4]])
    np.testing.assert_array_equal(sample.video_proprio, sample.action_proprio)


def test_loss_ranges_of_each_stream(path):
    loss_range = {"latent_loss_frame_start": 2, "latent_loss_frame_end": 5, "action_loss_frame_start": 3}
    sample = read(path, a_draw(2, 0, 7), loss_range=loss_range)
    assert sample.video_loss_mask.tolist() == [False] * 2 + [True] * 3 + [False] * 2
    assert sample.action_mask.any((1, 2)).tolist() == [False] * 3 + [True] * 4
    assert np.all(np.asarray(sample.row.geometry.action_valid)[2:])


def test_proprioception_goes_to_the_frames_or_to_the_text(path):
    states = open_store(path).read(2)["proprio_context_frames"]
    additive = read(path, a_draw(2, 0, 7), policy={"proprio_context_mode": "per_chunk_additive"})
    np.testing.assert_array_equal(additive.action_proprio, [*states[[0, 0]] * 0, *states[[1, 1, 3, 3, 5]]])
    tokens = read(path, a_draw(2, 0, 7, num_proprio=4), policy={"proprio_context_mode": "text_context_token"})
    np.testing.assert_array_equal(tokens.proprio_tokens, states[[0, 1, 3, 5]])
    assert additive.proprio_tokens is None
    assert tokens.action_proprio is None


def test_nothing_outside_the_segment_is_looked_at(tmp_path):
    path = write(tmp_path)
    before = read(path, a_draw(2, 2, 3))
    arrays = {name: np.array(array) for name, array in open_store(path).read(2).items()}
    arrays["video_latents"][:, [0, 1, 5, 6]] = arrays["condition_latents"][:, [0, 1, 5, 6]] = np.nan
    arrays["actions"][[*range(4), *range(10, 14)]] = np.nan
    rewrite_episode(path, 2, **arrays)
    after = read(path, a_draw(2, 2, 3))
    for name in ("video_latents", "clean_latents", "actions", "action_mask", "text"):
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name))


@pytest.mark.parametrize(
    ("field", "array", "match"),
    [
        ("video_latents", np.full((3, 3, 2, 2), np.nan, np.float16), r"sample ep0: video_latents = nan: not finite"),
        ("actions", np.zeros((6, 3), np.float32), r"sample ep0: actions = \(6, 3\): axis action_dim is 2"),
        ("action_mask", np.full((6, 2), 0.5, np.float32), r"sample ep0: action_mask = 0\.5: only 0 and 1"),
    ],
)
def test_a_bad_tensor_is_named_with_its_sample(tmp_path, field, array, match):
    path = write(tmp_path)
    rewrite_episode(path, 0, **{field: array})
    with pytest.raises(InputError, match=match):
        read(path, a_draw(0, 0, 3))


@pytest.mark.parametrize(
    ("draw", "match"),
    [
        (a_draw(0, 0, 3, num_text=2), r"sample ep0: text_context = 4: the index says 2"),
        (a_draw(3, 0, 9), r"sample ep3: frames = \(0, 9\)"),
    ],
)
def test_a_draw_that_the_record_does_not_fit(path, draw, match):
    with pytest.raises(InputError, match=match):
        read(path, draw)


def test_a_damaged_payload_is_named_with_its_sample(tmp_path):
    path = write(tmp_path)
    (path / "episodes/000001.safetensors").write_bytes(b"short")
    with pytest.raises(InputError, match=r"^sample ep1: .*000001\.safetensors.*copy"):
        read(path, a_draw(1, 0, 5, num_text=3))


def test_a_defect_says_which_sample_it_hit(path):
    with pytest.raises(ValueError, match="99") as error:
        read(path, a_draw(2, 0, 7, objective=99))
    assert error.value.__notes__ == ["while preparing sample ep2"]


def test_samples_of_a_drawn_stretch_fit_their_rows(path):
    """End to end over the law: every draw of an epoch of random segments gives a sample of its own size."""
    construction = {"mode": "uniform_segment", "min_segment_frames": 2, "max_segment_frames": 5}
    config = tiny_config(construction=construction | {"randomize_segment_length": True})
    store = open_store(path)
    law = make_law(config, store.index)
    draws = law.draws(Stretch(0, 0, len(law.space)), np.arange(len(law.space)))
    reader = SampleReader(config, store, row_constants(config, store.manifest))
    for i in np.flatnonzero(draws.num_text == 3):
        sample = reader.read(draws[i])
        assert len(sample.video_latents) == len(sample.actions) == draws.num_frames[i]
