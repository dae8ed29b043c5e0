"""What is supervised at all: which entries of the predicted velocities the loss of each sample depends on."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.restatement.prepare import prepare
from tests.support.cases import CASES, MOST_FRAMES, Bench, make_bench, write_store
from tests.support.oracle import architecture, restated_sample
from wam_jax.decode.decoder import Decoder, HiddenSamples, HiddenStream
from wam_jax.flow.noising import noise_samples
from wam_jax.sequence import Objective

FDM, IDM = Objective.ACTION_CONDITIONED_VIDEO, Objective.VIDEO_CONDITIONED_ACTION


@pytest.fixture(scope="module")
def bench(tmp_path_factory) -> Bench:
    return make_bench(write_store(tmp_path_factory.mktemp("supervision")))


@pytest.fixture(scope="module")
def felt(bench) -> tuple[np.ndarray, np.ndarray]:
    """Entries with a gradient: bool[S, T, C, H, W] of the video and bool[S, F, A, D] of the actions."""
    slots, batch = len(CASES), bench.batch(range(len(CASES)), slots=len(CASES))
    decoder = Decoder(lambda velocity, _: velocity, lambda velocity, _: velocity)

    def loss(video: jax.Array, action: jax.Array) -> jax.Array:
        noised = noise_samples(batch.samples, batch.seed, bench.policy.flow)
        streams = (HiddenStream(hidden, jnp.zeros(hidden.shape[:3])) for hidden in (video, action))
        return decoder.decoded(HiddenSamples(*streams), noised, batch.samples)[0]["loss"].sum()

    shapes = (1, slots, MOST_FRAMES + 1, 3, 2, 4), (1, slots, MOST_FRAMES, 2, 2)
    velocities = [jax.random.normal(jax.random.key(i), shape) for i, shape in enumerate(shapes)]
    video, action = jax.device_get(jax.jit(jax.grad(loss, argnums=(0, 1)))(*velocities))
    return video[0] != 0, action[0] != 0


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.name for case in CASES])
def test_the_loss_feels_what_the_restatement_supervises_and_no_padding(bench, felt, number):
    config = bench.config(number)
    inputs = prepare(restated_sample(config, bench.store, bench.draws[number]), patch=architecture(config).patch)
    video, action = (stream[number] for stream in felt)
    frames = np.pad(inputs.frame_mask, (0, len(video) - len(inputs.frame_mask))) > 0
    np.testing.assert_array_equal(video, np.broadcast_to(frames[:, None, None, None], video.shape))
    mask = inputs.action_mask.reshape(-1, *action.shape[1:]) > 0
    np.testing.assert_array_equal(action, np.pad(mask, ((0, len(action) - len(mask)), (0, 0), (0, 0))))


def test_the_observed_frame_is_never_supervised_and_the_given_stream_nowhere(bench, felt):
    video, action = felt
    objective = bench.draws.objective
    assert sum(objective == FDM) == sum(objective == IDM) == 3
    assert not video[objective == IDM].any()
    assert not action[objective == FDM].any()
    assert not video[objective == FDM, 0].any()
    assert not action[objective == IDM, 0].any()
    assert video[objective == FDM, 1].all()
    assert action[objective == IDM, 1].any((-1, -2)).all()


def test_a_prefix_frame_is_never_supervised_and_the_one_behind_it_is(bench, felt):
    prefixed = bench.draws.prefix_frames == 1
    assert prefixed.sum() == 3
    assert not felt[0][prefixed, 0].any()
    assert felt[0][prefixed, 1].all()
