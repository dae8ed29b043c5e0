"""True frames against the model's denoised estimates of them, decoded to pixels.

Held-out latents are noised to one stated level, the model estimates the clean ones in a single evaluation, and both are
decoded by the codec that made the latents. One image stands for each latent frame: the last raw frame that it codes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh

from wam_jax.data.transport import RowBatch
from wam_jax.policies.base import Params
from wam_jax.training.mesh import put_rows


class Codec(Protocol):
    """What turns latents into pixels."""

    def decode(self, latents: np.ndarray) -> np.ndarray:
        """`[C, 1 + k, h, w]` to `[1 + s * k, H, W, 3]` uint8 RGB."""
        ...


@dataclass(frozen=True)
class Strip:
    """One held-out sample.

    Attributes:
        true: `[F, H, W, 3]` uint8, its frames as the codec keeps them.
        estimate: the same of the model's estimate.
    """

    true: np.ndarray
    estimate: np.ndarray


def denoised_strips(
    denoise: Callable[[Params, RowBatch], jax.Array],
    params: Params,
    batches: Sequence[RowBatch],
    mesh: Mesh,
    codec: Codec,
    *,
    count: int,
) -> list[Strip]:
    """Strips of `count` held-out samples (fewer where there are fewer): the first ones of batches evenly apart.

    Args:
        denoise: compiled; estimates float32[R, S, T, C, H, W] of a batch's latents.
        params: the parameters.
        batches: the validation batches of this process.
        mesh: the run's.
        codec: of the store.
        count: how many.
    """
    strips: list[Strip] = []
    for index in np.unique(np.linspace(0, len(batches), count, endpoint=False).astype(int)):
        batch = batches[index]
        on_device = put_rows(mesh, batch)
        latents, estimates = multihost_utils.process_allgather(
            (on_device.samples.video_latents, denoise(params, on_device)), tiled=True
        )
        valid, frames, prefix = multihost_utils.process_allgather(
            (on_device.samples.valid, on_device.samples.num_frames, on_device.samples.prefix_frames), tiled=True
        )
        for row, slot in np.argwhere(valid)[: -(-count // len(batches))]:
            own = slice(prefix[row, slot], prefix[row, slot] + frames[row, slot])
            strips.append(Strip(_pixels(codec, latents[row, slot, own]), _pixels(codec, estimates[row, slot, own])))
    return strips[:count]


def _pixels(codec: Codec, latents: np.ndarray) -> np.ndarray:
    """`[F, C, h, w]` to `[F, H, W, 3]`."""
    video = codec.decode(np.moveaxis(np.asarray(latents, np.float32), 0, 1))
    stride = (len(video) - 1) // max(len(latents) - 1, 1)
    return video[:: max(stride, 1)]
