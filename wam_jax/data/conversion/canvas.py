"""Several cameras on one canvas: which rectangle belongs to which camera, in pixels and in latent cells.

    CAMERA                                  its own size; the next one to its right
    CAMERA@TOP,LEFT,HEIGHT,WIDTH            a rectangle in pixels

Without rectangles cameras stand side by side in the order they were given, as two views of 128 x 128 make a canvas of
128 x 256. What no camera covers is zero.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from wam_jax.errors import InputError

_RECTANGLE = re.compile(r"(?P<camera>.+?)(@(?P<top>\d+),(?P<left>\d+),(?P<height>\d+),(?P<width>\d+))?")


@dataclass(frozen=True)
class View:
    """A camera and its rectangle: top, left, height, width; None until the camera's own size is known."""

    camera: str
    rectangle: tuple[int, int, int, int] | None = None


@dataclass(frozen=True)
class Canvas:
    """Views with rectangles.

    Attributes:
        views: in order; they do not overlap.
        height, width: of the whole.
    """

    views: tuple[View, ...]
    height: int
    width: int

    def part(self, view: View, *, stride: int = 1) -> tuple[slice, slice]:
        """The rows and columns of a view, in pixels or in cells of `stride` pixels."""
        top, left, height, width = (side // stride for side in view.rectangle or (0, 0, 0, 0))
        return slice(top, top + height), slice(left, left + width)


def parse_view(text: str) -> View:
    """Reads one `--camera`; raises InputError."""
    match = _RECTANGLE.fullmatch(text)
    if not match or ("@" in text and match["top"] is None):
        raise InputError("--camera", text, "CAMERA or CAMERA@TOP,LEFT,HEIGHT,WIDTH in pixels")
    if match["top"] is None:
        return View(match["camera"])
    top, left, height, width = (int(match[name]) for name in ("top", "left", "height", "width"))
    return View(match["camera"], (top, left, height, width))


def lay_out(views: Sequence[View], sizes: Mapping[str, tuple[int, int]]) -> Canvas:
    """Gives every view a rectangle.

    Args:
        views: all with rectangles or all without.
        sizes: camera to its own height and width.
    Raises:
        InputError: a camera is unknown, rectangles overlap, or only some views have one.
    """
    for view in views:
        if view.camera not in sizes:
            raise InputError("--camera", view.camera, f"one of {', '.join(sorted(sizes))}")
    if len({view.rectangle is None for view in views}) > 1:
        raise InputError("--camera", [view.camera for view in views], "rectangles for all of them or for none")
    placed, left = [], 0
    for view in views:
        height, width = sizes[view.camera]
        placed.append(view if view.rectangle else View(view.camera, (0, left, height, width)))
        left += width
    return _checked(placed)


def _checked(views: Sequence[View]) -> Canvas:
    rectangles = [view.rectangle for view in views if view.rectangle]
    height = max(top + tall for top, _, tall, _ in rectangles)
    width = max(left + wide for _, left, _, wide in rectangles)
    if height > 1 << 13 or width > 1 << 13:
        raise InputError("--camera", (height, width), "a canvas of at most 8192 x 8192 pixels")
    taken = np.zeros((height, width), bool)
    for view, (top, left, tall, wide) in zip(views, rectangles, strict=True):
        part = taken[top : top + tall, left : left + wide]
        if part.any() or not part.size:
            raise InputError("--camera", view.camera, "a rectangle of its own, with pixels in it")
        part[:] = True
    return Canvas(tuple(views), height, width)
