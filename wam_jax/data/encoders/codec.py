"""A stand-in video encoder with the geometry of Wan's VAE: 1 + 4k raw frames become 1 + k latent frames.

Frame 0 is coded alone, as a group of four copies of itself; later frames in groups of four. A block of 4 frames x p x p
pixels x 3 colours goes through an orthonormal basis of which C coefficients are kept, each scaled to mean 0 and
variance 1. The basis is the Karhunen-Loeve transform (principal components) of blocks of training video: the best
linear code of a given size. Coding is causal and blockwise; `decode` inverts it up to the coefficients left out.

It is no VAE. It stands in for one where no weights can be had, so that predicted latents decode to frames that can be
looked at.
"""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from wam_jax.data.storage.manifest import EncoderRecord
from wam_jax.data.storage.store import CODEC, Store
from wam_jax.data.storage.tensorio import decode_tensors, encode_tensors
from wam_jax.errors import InputError

GROUP = 4
"""Raw frames per latent frame after the first."""

KIND = "stand-in"
_ARRAYS = ("basis", "block_mean", "mean", "std")


@dataclass(frozen=True, eq=False)
class KltCodec:
    """The fitted transform; N = 4 * p * p * 3 values per block.

    Attributes:
        basis: `[C, N]` float16, orthonormal rows.
        block_mean: `[N]` float32, the mean block.
        mean, std: `[C]` float32, of the coefficients.
    """

    basis: np.ndarray
    block_mean: np.ndarray
    mean: np.ndarray
    std: np.ndarray

    @property
    def channels(self) -> int:
        """C, channels of a latent."""
        return self.basis.shape[0]

    @property
    def patch(self) -> int:
        """p, pixels per side of a latent cell."""
        return round(np.sqrt(self.basis.shape[1] / (GROUP * 3)))

    @property
    def record(self) -> EncoderRecord:
        """What a store's manifest says of latents that this codec made."""
        return EncoderRecord(
            name=f"klt-p{self.patch}c{self.channels}",
            kind=KIND,
            spatial_stride=self.patch,
            temporal_stride=GROUP,
            channels=self.channels,
            normaliser="per channel to mean 0 and variance 1 over blocks of the train split",
            sha256=hashlib.sha256(self.to_bytes()).hexdigest(),
        )

    def encode(self, frames: np.ndarray) -> np.ndarray:
        """Video to latents.

        Args:
            frames: `[1 + 4k, H, W, 3]` uint8 RGB; H and W are multiples of p.
        Returns:
            `[C, 1 + k, H / p, W / p]` float32.
        Raises:
            InputError: the sizes do not fit.
        """
        if len(frames) % GROUP != 1:
            raise InputError("frames", len(frames), f"1 + {GROUP}k raw frames; repeat the last one (`pad_frames`)")
        return self._encode(np.concatenate([np.repeat(frames[:1], GROUP, axis=0), frames[1:]]))

    def encode_frame(self, frames: np.ndarray) -> np.ndarray:
        """Each frame coded alone, as `encode` codes frame 0: `[n, H, W, 3]` uint8 to `[C, n, H / p, W / p]` float32."""
        return self._encode(np.repeat(frames, GROUP, axis=0))

    def decode(self, latents: np.ndarray) -> np.ndarray:
        """Latents to video: `[C, 1 + k, h, w]` to `[1 + 4k, h * p, w * p, 3]` uint8 RGB."""
        grouped = self._decode(latents)
        return _to_uint8(np.concatenate([grouped[:1].mean(axis=1), *grouped[1:]]))

    def decode_frame(self, latents: np.ndarray) -> np.ndarray:
        """Inverse of `encode_frame`: one frame per latent frame, `[C, n, h, w]` to `[n, h * p, w * p, 3]` uint8 RGB."""
        return _to_uint8(self._decode(latents).mean(axis=1))

    def to_bytes(self) -> bytes:
        """The codec as a safetensors file; the same codec gives the same bytes."""
        about = json.dumps({"kind": KIND, "transform": "klt", "group": GROUP, "patch": self.patch})
        return encode_tensors({name: getattr(self, name) for name in _ARRAYS}, {"codec": about})

    def _encode(self, frames: np.ndarray) -> np.ndarray:
        coefficients = (blocks_of(frames, self.patch) - self.block_mean) @ self._basis.T
        return np.moveaxis((coefficients - self.mean) / self.std, -1, 0)

    def _decode(self, latents: np.ndarray) -> np.ndarray:
        """`[C, T, h, w]` to `[T, 4, H, W, 3]` float32 in about [-1, 1]."""
        coefficients = np.moveaxis(latents.astype(np.float32), 0, -1) * self.std + self.mean
        blocks = coefficients @ self._basis + self.block_mean
        T, h, w, _ = blocks.shape
        p = self.patch
        return blocks.reshape(T, h, w, GROUP, p, p, 3).transpose(0, 3, 1, 4, 2, 5, 6).reshape(T, GROUP, h * p, w * p, 3)

    @cached_property
    def _basis(self) -> np.ndarray:
        return self.basis.astype(np.float32)


def codec_from_bytes(data: bytes, *, source: str) -> KltCodec:
    """Inverse of `KltCodec.to_bytes`; raises InputError naming `source` where the content is not a codec."""
    arrays = decode_tensors(data, source=source)
    missing = [name for name in _ARRAYS if name not in arrays]
    if missing:
        raise InputError(source, missing, "these arrays are missing; a file written by `KltCodec.to_bytes`")
    return KltCodec(**{name: arrays[name] for name in _ARRAYS})


def codec_of(store: Store) -> KltCodec | None:
    """The codec that made a store's latents, or None where the store keeps none, as with a real VAE.

    Raises:
        InputError: the file is damaged.
    """
    path = store.path / CODEC
    return codec_from_bytes(path.read_bytes(), source=str(path)) if path.exists() else None


def blocks_of(frames: np.ndarray, patch: int) -> np.ndarray:
    """Groups of four frames as rows of blocks.

    Args:
        frames: `[4T, H, W, 3]` uint8.
    Returns:
        `[T, H / p, W / p, 4 * p * p * 3]` float32 in [-1, 1].
    Raises:
        InputError: H or W is no multiple of `patch`.
    """
    n, H, W, _ = frames.shape
    if H % patch or W % patch:
        raise InputError("frames", f"{H} x {W} pixels", f"sides that are multiples of {patch}")
    scaled = frames.astype(np.float32) / 127.5 - 1
    cells = scaled.reshape(n // GROUP, GROUP, H // patch, patch, W // patch, patch, 3)
    return cells.transpose(0, 2, 4, 1, 3, 5, 6).reshape(n // GROUP, H // patch, W // patch, -1)


def pad_frames(frames: np.ndarray) -> np.ndarray:
    """Repeats the last entry of axis 0 until there are 1 + 4k; also for states."""
    return np.concatenate([frames, np.repeat(frames[-1:], -(len(frames) - 1) % GROUP, axis=0)])


def psnr(frames: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Peak signal-to-noise ratio of each frame in dB: `[n, H, W, 3]` uint8 against the same, to `[n]`."""
    error = np.square(frames.astype(np.float32) - reference).mean(axis=(1, 2, 3))
    return 10 * np.log10(255**2 / np.maximum(error, 1e-10))


def _to_uint8(values: np.ndarray) -> np.ndarray:
    return np.clip(np.rint((values + 1) * 127.5), 0, 255).astype(np.uint8)
