"""Spans of videos: the right frames, in the right sizes, or a reason."""

import numpy as np
import pytest

from tests.data.conversion.robots import FPS, png, record, write_video
from wam_jax.data.conversion.video import Span, read_frames, read_image, video_size
from wam_jax.errors import InputError

FRAMES = record(4).frames
SIZE = FRAMES.shape[1:3]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("video") / "v.mp4"
    write_video(path, FRAMES)
    return path


@pytest.mark.parametrize(("first", "count", "stride"), [(0, 21, 1), (0, 5, 1), (7, 9, 1), (12, 9, 2), (20, 1, 1)])
def test_frames_from_any_place(path, first, count, stride):
    found = read_frames(path, Span(first / FPS, count, FPS, stride), size=SIZE)
    wanted = FRAMES[first : first + count : stride]
    assert found.shape == wanted.shape
    assert np.abs(found.astype(int) - wanted).mean() < 6
    assert np.abs(found.astype(int) - wanted).mean() < np.abs(np.roll(found.astype(int), 2, axis=2) - wanted).mean()


def test_a_video_that_is_too_short_is_refused(path):
    with pytest.raises(InputError, match="21 frames from 0 s on"):
        read_frames(path, Span(0, 22, FPS), size=SIZE)


def test_another_rate_is_refused(path):
    with pytest.raises(InputError, match=r"frame 1 at 0\.0500 s.*: 0\.0333 s"):
        read_frames(path, Span(0, 10, 30), size=SIZE)


def test_a_damaged_video_is_refused(path, tmp_path):
    broken = tmp_path / "b.mp4"
    broken.write_bytes(path.read_bytes()[:400])
    with pytest.raises(InputError, match="a video that decodes"):
        read_frames(broken, Span(0, 10, FPS), size=SIZE)


def test_the_size_is_read(path, tmp_path):
    assert video_size(path) == SIZE
    with pytest.raises(InputError):
        video_size(tmp_path)


def test_proportions_are_kept():
    image = np.full((8, 16, 3), 200, np.uint8)
    padded, cropped = np.zeros((2, 8, 8, 3), np.uint8)
    read_image(png(image), padded, where="image")
    read_image(png(image), cropped, where="image", fit="crop")
    assert (padded[[0, 1, 6, 7]] == 0).all()
    assert (padded[2:6] > 190).all()
    assert (cropped > 190).all()


def test_what_is_no_image_is_refused():
    with pytest.raises(InputError, match="image that decodes"):
        read_image(b"nothing", np.zeros((8, 8, 3), np.uint8), where="image")


def test_av1_too(tmp_path):
    frames = record(1, side=64).frames  # The encoder knows no smaller pictures.
    write_video(tmp_path / "v.mp4", frames, codec="libsvtav1")
    found = read_frames(tmp_path / "v.mp4", Span(3 / FPS, 6, FPS), size=(64, 64))
    assert np.abs(found.astype(int) - frames[3:9]).mean() < 8


def test_damage_in_the_middle_is_not_painted_over(path, tmp_path):
    broken, data = tmp_path / "b.mp4", bytearray(path.read_bytes())
    at = data.find(b"mdat") + 1200
    data[at : at + 200] = bytes(range(200))
    broken.write_bytes(bytes(data))
    with pytest.raises(InputError):
        read_frames(broken, Span(0, 21, FPS), size=SIZE)
