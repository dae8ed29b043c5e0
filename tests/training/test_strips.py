"""Strips hold the frames of valid samples, prefix and padding left out, through the codec."""

import dataclasses
from typing import Any

import jax
import numpy as np

from tests.training.fakes import make_batch
from wam_jax.data.transport import RowBatch
from wam_jax.training.mesh import make_mesh
from wam_jax.training.strips import Strip, denoised_strips


class EveryFourth:
    """A codec whose video repeats each latent frame after the first four times."""

    def decode(self, latents: np.ndarray) -> np.ndarray:
        frames = np.moveaxis(latents, 0, -1)
        return np.concatenate([frames[:1], np.repeat(frames[1:], 4, axis=0)])


def batch(valid: int) -> RowBatch:
    """Three slots of 4 frames (1 prefix, then as many as the slot's number and one) that count up."""
    base = make_batch(0, valid=valid)
    latents = np.arange(3 * 4, dtype=np.float32).reshape(1, 3, 4, 1, 1, 1) * np.ones((1, 1, 1, 2, 3, 3), np.float32)
    frames, prefix = np.array([[1, 2, 3]], np.int32), np.ones((1, 3), np.int32)
    samples = dataclasses.replace(base.samples, video_latents=latents, num_frames=frames, prefix_frames=prefix)
    return dataclasses.replace(base, samples=samples)


def strips(batches: list[RowBatch], count: int) -> list[Strip]:
    def denoise(_: Any, batch: RowBatch) -> jax.Array:
        return -batch.samples.video_latents

    return denoised_strips(denoise, {}, batches, make_mesh((-1, 1)), EveryFourth(), count=count)


def test_a_strip_has_one_image_a_frame_of_the_sample() -> None:
    found = strips([batch(valid=3)], 3)
    assert [strip.true[:, 0, 0, 0].tolist() for strip in found] == [[1], [5, 6], [9, 10, 11]]
    assert [strip.estimate[:, 0, 0, 0].tolist() for strip in found] == [[-1], [-5, -6], [-9, -10, -11]]
    assert found[2].true.shape == (3, 3, 3, 2)


def test_empty_slots_have_none() -> None:
    assert [len(strip.true) for strip in strips([batch(valid=1)], 3)] == [1]
    assert strips([batch(valid=1)], 0) == []


def test_strips_come_from_batches_evenly_apart() -> None:
    batches = [dataclasses.replace(batch(valid=3), seed=np.uint32(number)) for number in range(4)]
    seen: list[int] = []

    def denoise(_: Any, batch: RowBatch) -> jax.Array:
        seen.append(int(batch.seed))
        return batch.samples.video_latents

    found = denoised_strips(denoise, {}, batches, make_mesh((-1, 1)), EveryFourth(), count=2)
    assert (seen, len(found)) == ([0, 2], 2)
    assert len(strips(batches, 6)) == 6
