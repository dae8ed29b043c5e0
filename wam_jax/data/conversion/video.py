"""Frames of a video file by their times: decoded forward from the keyframe before, checked one by one, resized."""

from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Literal

import av
import numpy as np
from av.error import FFmpegError

from wam_jax.errors import InputError

MAX_SIDE = 4096
Fit = Literal["pad", "crop"]


@dataclass(frozen=True)
class Span:
    """Every `stride`-th of the `frames` frames of an episode that begins `start` seconds into a file of `fps`."""

    start: float
    frames: int
    fps: float
    stride: int = 1


def read_frames(path: Path, span: Span, *, size: tuple[int, int], fit: Fit = "pad") -> np.ndarray:
    """Decodes a span.

    Args:
        path: a local video file.
        span: which frames.
        size: height and width of the result. Other sizes are scaled with their proportions kept, then padded with zeros
            or cropped at the centre.
    Returns:
        `[n, height, width, 3]` uint8 RGB.
    Raises:
        InputError: the file is damaged, a frame is missing, or one is not where its number says.
    """
    frames = np.zeros((len(range(0, span.frames, span.stride)), *size, 3), np.uint8)
    count = 0
    try:
        with av.open(str(path), "r") as container:
            for count, frame in enumerate(_decoded(container, span, str(path)), 1):
                if (count - 1) % span.stride == 0:
                    _place(frame, frames[(count - 1) // span.stride], fit)
    except (FFmpegError, OSError, ValueError, IndexError, MemoryError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(str(path), str(error), "a video that decodes; copy it again") from None
    if count < span.frames:
        raise InputError(str(path), f"{count} frames from {span.start:g} s on", f"{span.frames} were recorded")
    return frames


def read_image(data: bytes, out: np.ndarray, *, where: str, fit: Fit = "pad") -> None:
    """Decodes an image file's bytes (PNG, JPEG) into `out [height, width, 3]`; raises InputError naming `where`."""
    try:
        with av.open(BytesIO(data), "r") as container:
            _check_size(container, where)
            _place(next(container.decode(video=0)), out, fit)
    except (FFmpegError, OSError, ValueError, IndexError, StopIteration, MemoryError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(where, str(error), "an image that decodes; copy it again") from None


def video_size(path: Path) -> tuple[int, int]:
    """Height and width of a video; raises InputError."""
    try:
        with av.open(str(path), "r") as container:
            _check_size(container, str(path))
            stream = container.streams.video[0]
            return stream.height, stream.width
    except (FFmpegError, OSError, IndexError) as error:
        raise InputError(str(path), str(error), "a video file; copy it again") from None


def _decoded(container: "av.container.InputContainer", span: Span, where: str) -> Iterator["av.VideoFrame"]:
    """The frames of `span` in order, each checked to be shown when its number says."""
    _check_size(container, where)
    stream, half = container.streams.video[0], 0.5 / span.fps
    if span.start > half:
        container.seek(max(0, int((span.start - half) / (stream.time_base or 1))), stream=stream)
    stream.codec_context.options = {"err_detect": "explode"}  # Else what is damaged is painted over.
    number = 0
    for frame in container.decode(stream):
        if frame.is_corrupt:
            raise InputError(where, f"frame {number} of the episode at {span.start:g} s", "is damaged; copy it again")
        time = frame.time or 0.0
        if time < span.start - half:
            continue
        wanted = span.start + number / span.fps
        if abs(time - wanted) > half:
            raise InputError(
                where, f"frame {number} at {time:.4f} s", f"{wanted:.4f} s at {span.fps:g} frames per second"
            )
        yield frame
        number += 1
        if number == span.frames:
            return


def _check_size(container: "av.container.InputContainer", where: str) -> None:
    stream = container.streams.video[0]
    if stream.codec_context is None:
        raise InputError(where, "an unknown codec", "a video that can be decoded here")
    if not 0 < max(stream.height, stream.width) <= MAX_SIDE:
        raise InputError(where, f"{stream.height} x {stream.width} pixels", f"sides up to {MAX_SIDE}")


def _place(frame: "av.VideoFrame", out: np.ndarray, fit: Fit) -> None:
    height, width = out.shape[:2]
    if (frame.height, frame.width) == (height, width):
        out[:] = frame.to_ndarray(format="rgb24")
        return
    ratios = height / frame.height, width / frame.width
    ratio = min(ratios) if fit == "pad" else max(ratios)
    tall, wide = max(1, round(frame.height * ratio)), max(1, round(frame.width * ratio))
    image = frame.reformat(width=wide, height=tall, format="rgb24", interpolation="AREA").to_ndarray()
    _centre(image, out)


def _centre(image: np.ndarray, out: np.ndarray) -> None:
    """Puts `image` over `out` with their centres together."""
    here, there = [], []
    for inner, outer in zip(image.shape[:2], out.shape[:2], strict=True):
        common = min(inner, outer)
        here.append(slice((inner - common) // 2, (inner - common) // 2 + common))
        there.append(slice((outer - common) // 2, (outer - common) // 2 + common))
    out[tuple(there)] = image[tuple(here)]
