"""Cameras and their rectangles."""

import numpy as np
import pytest

from wam_jax.data.conversion.canvas import View, lay_out, parse_view
from wam_jax.errors import InputError

SIZES = {"a": (16, 16), "b": (16, 32)}


def test_side_by_side_in_the_order_given():
    canvas = lay_out([View("b"), View("a")], SIZES)
    assert (canvas.height, canvas.width) == (16, 48)
    assert canvas.part(canvas.views[1]) == (slice(0, 16), slice(32, 48))
    assert canvas.part(canvas.views[1], stride=8) == (slice(0, 2), slice(4, 6))


def test_rectangles_are_read():
    assert parse_view("observation.images.a@1,2,3,4") == View("observation.images.a", (1, 2, 3, 4))
    assert parse_view("a") == View("a")


@pytest.mark.parametrize("text", ["a@1,2,3", "a@x", "@", ""])
def test_other_words_are_refused(text):
    with pytest.raises(InputError, match="CAMERA@TOP,LEFT,HEIGHT,WIDTH"):
        parse_view(text)


def test_a_gap_is_left_empty():
    canvas = lay_out([View("a", (0, 0, 8, 8)), View("b", (8, 16, 8, 8))], SIZES)
    covered = np.zeros((canvas.height, canvas.width))
    for view in canvas.views:
        covered[canvas.part(view)] += 1
    assert (covered.shape, covered.sum(), covered.max()) == ((16, 24), 128, 1)


@pytest.mark.parametrize(
    ("views", "said"),
    [
        ([View("c")], "one of a, b"),
        ([View("a", (0, 0, 8, 8)), View("b")], "for all of them or for none"),
        ([View("a", (0, 0, 8, 8)), View("b", (4, 4, 8, 8))], "a rectangle of its own"),
        ([View("a", (0, 0, 0, 8)), View("b", (0, 0, 8, 8))], "with pixels in it"),
        ([View("a", (0, 0, 9000, 8))], "8192"),
    ],
)
def test_layouts_that_cannot_be_are_refused(views, said):
    with pytest.raises(InputError, match=said):
        lay_out(views, SIZES)
