"""Noising against the restatement: every clock and objective, with and without a prefix, on real draws."""

import jax
import numpy as np
import pytest

from tests.restatement.prepare import Inputs, prepare
from tests.restatement.tables import Architecture
from tests.support.cases import ADDITIVE, CONTEXT, GJD, IDM, PREFIX, Bench, Case, program, write_store
from tests.support.networks import SMALL_NETWORK, policy_for
from tests.support.oracle import architecture, restated_sample
from tests.support.runs import tiny_config
from wam_jax.flow.noising import NoisedStream, noise_samples

CLOCKS = ("independent", "match_index", "match_sigma", "shared_video_schedule")
FDM_OF_GJD = Case("gjd fdm", GJD, objective="action_conditioned_video")
CASES = (
    Case("joint", program("joint")),
    Case("prefix", program("joint", **PREFIX)),
    FDM_OF_GJD,
    Case("gjd idm", GJD, objective=IDM),
    Case("context", program("joint", **CONTEXT), construction={"target_alignment": "next_after_context"}),
    Case("ranges", program("joint"), loss_range={"action_loss_frame_start": 2, "action_loss_frame_end": 4}),
)


@pytest.fixture(scope="module")
def bench(tmp_path_factory) -> Bench:
    return Bench(write_store(tmp_path_factory.mktemp("noising")), CASES, ADDITIVE)


def close(found, expected) -> None:
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


def check_video(found: NoisedStream, inputs: Inputs, frames: int) -> None:
    """The first `frames` frames of one slot of each array."""
    copies = np.concatenate([found.copies[0, :frames], found.copies[1, :frames]])
    close(copies.swapaxes(0, 1), inputs.video)
    close(np.concatenate([found.timesteps[0, :frames], found.timesteps[1, :frames]]), inputs.video_timesteps)
    close(found.target[:frames].swapaxes(0, 1), inputs.video_target)
    schedule, timesteps = inputs.video_schedule, inputs.video_timesteps[:frames]
    close(found.sigma[:frames], schedule.sigma_at(timesteps))
    close(found.weight[:frames], schedule.weight_at(timesteps))


def check_action(found: NoisedStream, inputs: Inputs, frames: int) -> None:
    """Likewise."""
    copies = np.concatenate([found.copies[0, :frames], found.copies[1, :frames]])
    close(copies.reshape(inputs.actions.shape), inputs.actions)
    close(np.concatenate([found.timesteps[0, :frames], found.timesteps[1, :frames]]), inputs.action_timesteps)
    close(found.target[:frames].reshape(inputs.action_target.shape), inputs.action_target)
    schedule, timesteps = inputs.action_schedule, inputs.action_timesteps[:frames]
    close(found.sigma[:frames], schedule.sigma_at(timesteps))
    close(found.weight[:frames], schedule.weight_at(timesteps))


@pytest.mark.parametrize("clock", CLOCKS)
def test_noised_samples_equal_the_restatement(bench, clock):
    clocked = Bench(bench.store, CASES, ADDITIVE | {"joint_timestep_coupling": clock})
    policy = policy_for(tiny_config(policy=clocked.base, backbone=SMALL_NETWORK), bench.store)
    batch = clocked.batch(range(len(CASES)), slots=len(CASES))
    noised = jax.device_get(jax.jit(noise_samples, static_argnums=2)(batch.samples, batch.seed, policy.flow))
    for slot in range(len(CASES)):
        sample = restated_sample(clocked.config(slot), bench.store, clocked.draws[slot])
        arch: Architecture = architecture(clocked.config(slot))
        inputs = prepare(sample, patch=arch.patch)
        own = jax.tree.map(lambda array, slot=slot: array[0, slot], noised)
        check_video(own.video, inputs, inputs.geometry.model_frames)
        check_action(own.action, inputs, inputs.geometry.num_frames)
