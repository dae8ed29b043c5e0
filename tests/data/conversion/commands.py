"""Running the command in this process, and what its encoders are."""

import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from etils import epath

from wam_jax.data import convert
from wam_jax.data.encoders.codec import GROUP, KltCodec
from wam_jax.data.storage.manifest import EncoderRecord

PATCH, CHANNELS = 8, 6


def small_codec() -> KltCodec:
    """A codec of 6 channels that keeps the mean of each colour, its change and two slopes of a block of 8 pixels."""
    t, y, x, c = np.meshgrid(*(np.linspace(-1, 1, n) for n in (GROUP, PATCH, PATCH, 3)), indexing="ij")
    values = [c == -1, c == 0, c == 1, t, y, x]
    basis, _ = np.linalg.qr(np.stack([value.astype(float).ravel() for value in values], axis=1))
    return KltCodec(
        basis=np.ascontiguousarray(basis.T.astype(np.float16)),
        block_mean=np.zeros(basis.shape[0], np.float32),
        mean=np.zeros(CHANNELS, np.float32),
        std=np.full(CHANNELS, 8, np.float32),
    )


def codec_file(directory: Path) -> Path:
    """`small_codec` as a file in `directory`."""
    path = directory / "small.safetensors"
    path.write_bytes(small_codec().to_bytes())
    return path


MEANS = EncoderRecord("means", "test", PATCH, GROUP, 3, "means in 0..1")


@dataclass(frozen=True)
class MeanEncoder:
    """An encoder of a user's own, without `encode_frame`: mean colours of blocks of 8 pixels."""

    record: EncoderRecord = MEANS

    def encode(self, frames: np.ndarray) -> np.ndarray:
        R, H, W, _ = frames.shape
        cells = frames.reshape(R, H // PATCH, PATCH, W // PATCH, PATCH, 3).mean(axis=(2, 4)) / 255
        return np.moveaxis(cells[::GROUP], -1, 0).astype(np.float32)


def broken_encoder() -> MeanEncoder:
    """One that gives too few frames."""
    encoder = MeanEncoder()

    class Broken:
        record = encoder.record

        def encode(self, frames: np.ndarray) -> np.ndarray:
            return encoder.encode(frames)[:, 1:]

    return Broken()  # ty: ignore[invalid-explicit-return]


def run(source: epath.PathLike, store: Path, *arguments: Any) -> tuple[int, dict[str, Any]]:
    """Runs the command; returns its code and its report."""
    report = store.parent / f"{store.name}.report.json"
    code = convert.main([str(item) for item in (source, store, *arguments, "--report", report)])
    return code, json.loads(report.read_text())


def write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """An `.npz`, compressed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, value in arrays.items():
            with archive.open(f"{key}.npy", "w") as file:
                np.save(file, value)


class Deadly(MeanEncoder):
    """One that ends its process, as a system without memory does."""

    def encode(self, frames: np.ndarray) -> np.ndarray:  # noqa: ARG002 - it has the interface.
        os._exit(9)
