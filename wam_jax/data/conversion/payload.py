"""One latent payload of the reference implementation: a `.pth` with a dict, of one camera and one window.

    latent, condition_latent             [T * H * W, C] or [T, H, W, C], frame-major, channels last
    latent_num_frames, _height, _width   T, H, W
    frame_ids                            recorded frames of the sampled video; absent: all of the window
    text_emb                             [tokens, dim], of the window's instruction
    condition_source_frame_offset        of the condition latents, counted from the next latent frame's first frame

Condition latents with offset -1 are the codes of the anchors, alone, as the store holds them. With another offset they
are something else: they are left out, and the report says so.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wam_jax.data.conversion.torch_file import TorchFile, read_torch
from wam_jax.data.conversion.torch_pickle import TensorRecord
from wam_jax.errors import InputError

ANCHOR_OFFSET = -1
MAX_FRAMES = 1 << 20


@dataclass(frozen=True)
class LatentPayload:
    """A file that was opened; tensors are read when they are asked for.

    Attributes:
        file: the file.
        fields: its dict.
    """

    file: TorchFile
    fields: Mapping[str, Any]

    @property
    def grid(self) -> tuple[int, int, int]:
        """T, H and W; raises InputError."""
        names = ("latent_num_frames", "latent_height", "latent_width")
        sizes = tuple(self._whole(name) for name in names)
        if not all(0 < size <= MAX_FRAMES for size in sizes):
            raise InputError(f"{self.file.path}: {', '.join(names)}", sizes, "sizes of 1 and more")
        return sizes[0], sizes[1], sizes[2]

    @property
    def channels(self) -> int:
        """C; raises InputError."""
        return self._record("latent").shape[-1]

    def latents(self, name: str = "latent") -> np.ndarray:
        """`[C, T, H, W]` of `latent` or `condition_latent`; raises InputError."""
        record, (T, H, W) = self._record(name), self.grid
        C, where = record.shape[-1], f"{self.file.path}: {name}"
        layout = self.fields.get("latent_layout", "THWC")
        if layout == "CTHW" and record.shape[1:] == (T, H, W):
            return self._floats(name)
        if layout != "THWC":
            raise InputError(f"{self.file.path}: latent_layout", layout, "THWC, or CTHW with four axes")
        if record.shape not in ((T * H * W, C), (T, H, W, C)):
            raise InputError(where, record.shape, f"[T * H * W, C] or [T, H, W, C] of {T} x {H} x {W}")
        return self._floats(name).reshape(T, H, W, C).transpose(3, 0, 1, 2)

    def condition_latents(self) -> tuple[np.ndarray | None, tuple[str, ...]]:
        """The codes of the anchors, or None, and what the report should say."""
        if self.fields.get("condition_latent") is None:
            return None, ()
        offset = self.fields.get("condition_source_frame_offset")
        if offset != ANCHOR_OFFSET:
            said = offset if isinstance(offset, int) else "no"
            note = f"condition latents left out: {said} offset, and the store holds the anchors' ({ANCHOR_OFFSET})"
            return None, (note,)
        return self.latents("condition_latent"), ()

    def frame_ids(self, start: int, end: int) -> np.ndarray:
        """Recorded frames of the sampled video, int64; raises InputError."""
        ids = self.fields.get("frame_ids")
        if ids is None:
            ids = range(start, min(end, start + MAX_FRAMES))
        if isinstance(ids, TensorRecord):
            ids = self.file.tensor(ids, what="frame_ids").reshape(-1).tolist()
        if not isinstance(ids, list | tuple | range) or not all(type(i) is int and 0 <= i < 1 << 31 for i in ids):
            raise InputError(f"{self.file.path}: frame_ids", type(ids).__name__, "whole numbers, one a frame")
        return np.array(ids, np.int64)

    def text(self) -> np.ndarray | None:
        """`[tokens, dim]` float32, or None; raises InputError."""
        return None if self.fields.get("text_emb") is None else as_text(self._floats("text_emb"), self.file.path)

    def _record(self, name: str) -> TensorRecord:
        record = self.fields.get(name)
        if not isinstance(record, TensorRecord) or not record.shape:
            raise InputError(f"{self.file.path}: {name}", type(record).__name__, "a tensor")
        return record

    def _floats(self, name: str) -> np.ndarray:
        record = self._record(name)
        if not record.storage.dtype.startswith(("float", "bfloat")):
            raise InputError(f"{self.file.path}: {name}", record.storage.dtype, "floating-point numbers")
        return self.file.tensor(record, what=name).astype(np.float32)

    def _whole(self, name: str) -> int:
        value = self.fields.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise InputError(f"{self.file.path}: {name}", type(value).__name__, "a whole number")
        return value


def open_payload(path: Path) -> LatentPayload:
    """Opens a payload; raises InputError where the file holds no dict or is refused."""
    file = read_torch(path)
    if not isinstance(file.content, dict):
        raise InputError(str(path), type(file.content).__name__, "a dict with `latent` and its sizes")
    return LatentPayload(file, file.content)


def read_text(path: Path) -> np.ndarray:
    """`[tokens, dim]` float32 of a file with one tensor, as `empty_emb.pt` is; raises InputError."""
    file = read_torch(path)
    if not isinstance(file.content, TensorRecord):
        raise InputError(str(path), type(file.content).__name__, "one tensor [tokens, dim]")
    return as_text(LatentPayload(file, {"text": file.content})._floats("text"), path)


def as_text(vectors: np.ndarray, path: Path) -> np.ndarray:
    """`[tokens, dim]`, a leading axis of 1 removed; raises InputError naming `path`."""
    vectors = vectors[0] if vectors.ndim == 3 and len(vectors) == 1 else vectors
    if vectors.ndim != 2 or not np.isfinite(vectors).all():
        raise InputError(f"{path}: text", vectors.shape, "finite vectors [tokens, dim]")
    return vectors
