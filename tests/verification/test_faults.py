"""Faults that batching is prone to, planted one at a time: each is found, and what it strikes first is named.

All strike samples in company only, so that what a draw comes to alone stays what it should be.
"""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from wam_jax.data.batching.materialize import Materializer
from wam_jax.decode import aggregate, decoder
from wam_jax.policies.dual_expert import noise_samples
from wam_jax.sequence import layout, rope
from wam_jax.tracing.differences import first_diverged
from wam_jax.verification.page import as_page
from wam_jax.verification.report import as_json, as_text


def _positions_run_on(monkeypatch):
    """Along the buffer, so that a clean frame lies elsewhere than its noisy copy. A shift of all would not matter."""
    place = layout._Row._place_phases

    def run_on(row, sample, video, action):
        place(row, sample, video, action)
        if video.start:
            frames = np.arange(video.start, video.stop, dtype=np.float64)
            row.video_phase[video] = rope.phases(frames, row.constants.frame_axis)

    monkeypatch.setattr(layout._Row, "_place_phases", run_on)


def _mask_begins_a_token_early(monkeypatch):
    place = layout._Row._place_runs

    def early(row, table, video, action):
        first = row.runs
        place(row, table, video, action)
        own = row.ranges[first : row.runs]
        own[..., 0] -= (own[..., 0] == video.start * row.video.tokens) & (own[..., 1] > 0) & (video.start > 0)

    monkeypatch.setattr(layout._Row, "_place_runs", early)


def _loss_is_averaged_over_tokens(monkeypatch):
    """Of a row: long samples weigh more."""
    fields = decoder._decoded_fields

    def averaged(samples):
        found = fields(samples)
        mean = found["num_slots"].sum(1, keepdims=True) / samples.valid.sum(1, keepdims=True)
        return found | {"num_slots": jnp.broadcast_to(mean, found["num_slots"].shape)}

    monkeypatch.setattr(decoder, "_decoded_fields", averaged)


def _noise_belongs_to_the_slot(monkeypatch):
    def by_slot(samples, seed, flow, **options):
        slot = jnp.arange(samples.draw.shape[1], dtype=jnp.uint32)
        draw = samples.draw.at[..., 2].add(slot)
        return noise_samples(dataclasses.replace(samples, draw=draw), seed, flow, **options)

    monkeypatch.setattr("wam_jax.policies.dual_expert.noise_samples", by_slot)


def _text_of_all_is_read(monkeypatch):
    place = layout._Row._place_text

    def all_read(row, sample, keys, video, action):
        everything = dataclasses.replace(sample, num_text=keys.text + sample.num_text)
        place(row, everything, dataclasses.replace(keys, text=0), video, action)

    monkeypatch.setattr(layout._Row, "_place_text", all_read)


def _chunks_are_the_first_samples(monkeypatch):
    build = layout.build_row

    def same_chunks(samples, rung, constants):
        first = next((sample.geometry.chunk_size for sample in samples if sample is not None), None)

        def changed(sample):
            return dataclasses.replace(sample, geometry=dataclasses.replace(sample.geometry, chunk_size=first))

        return build([sample if sample is None else changed(sample) for sample in samples], rung, constants)

    monkeypatch.setattr("wam_jax.data.batching.materialize.build_row", same_chunks)


def _states_are_the_neighbours(monkeypatch):
    make = Materializer.batch

    def neighbours(maker, draws, rung):
        batch = make(maker, draws, rung)
        rolled = np.roll(np.asarray(batch.samples.video_proprio), 1, axis=1)
        return dataclasses.replace(batch, samples=dataclasses.replace(batch.samples, video_proprio=rolled))

    monkeypatch.setattr(Materializer, "batch", neighbours)


def _long_samples_weigh_more_in_an_update(monkeypatch):
    sums = aggregate._sums

    def weighed(losses, chosen):
        return sums({name: value * jnp.arange(1, chosen.shape[1] + 1) for name, value in losses.items()}, chosen)

    monkeypatch.setattr(aggregate, "_sums", weighed)


FAULTS = {
    "positions run on": (_positions_run_on, ".block_00.attention.query"),
    "mask begins a token early": (_mask_begins_a_token_early, ".block_00.attention.out"),
    "loss averaged over tokens": (_loss_is_averaged_over_tokens, "decode.action_loss"),
    "noise of the slot": (_noise_belongs_to_the_slot, "noise.video"),
    "text of all": (_text_of_all_is_read, "video_expert.text"),
    "chunks of the first": (_chunks_are_the_first_samples, ".block_00.attention.out"),
    "states of the neighbour": (_states_are_the_neighbours, "video_expert.embedding"),
}
IN_DEFAULT = "mask begins a token early"


def test_without_a_fault_every_mode_passes(verifier, runs):
    found = verifier.compare(verifier.run(["padded"]) | runs, trace=False)
    assert found.passed, as_text(found)
    assert as_json(found)["modes"][1]["checks"][0]["passed"]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == IN_DEFAULT else pytest.mark.slow) for name in FAULTS]
)
def test_a_planted_fault_is_found_where_it_strikes(name, verifier, monkeypatch):
    plant, where = FAULTS[name]
    plant(monkeypatch)
    found = verifier.verify(["packed"], trace=True)
    assert not found.passed
    first = first_diverged(found.modes[0].way)
    assert first is not None
    assert first.name.endswith(where)
    assert first.name in as_page(found)[:4000]


@pytest.mark.slow
def test_weights_of_an_update_show_in_its_gradient_alone(verifier, monkeypatch):
    """They are no matter of any one sample, and no tensor on its way is another."""
    _long_samples_weigh_more_in_an_update(monkeypatch)
    (mode,) = verifier.verify(["packed"], trace=True).modes
    assert {check.quantity for check in mode.checks if not check.passed} >= {"mean gradient"}
    assert first_diverged(mode.way) is None
