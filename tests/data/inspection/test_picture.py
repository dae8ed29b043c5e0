"""The picture of an episode."""

import matplotlib.image
import numpy as np
import pytest

from tests.data.inspection.moving import moving, write_moving
from wam_jax.data import inspect
from wam_jax.data.encoders.codec import codec_of
from wam_jax.data.inspection.picture import SHOWN, draw_episode, false_colours, find_episode, strip
from wam_jax.data.storage.store import open_store
from wam_jax.errors import InputError


@pytest.fixture
def store(tmp_path):
    return write_moving(tmp_path / "store", [moving(0), moving(1, with_state=False, frames=4)])


def ink(path):
    """Share of the picture that is not white."""
    return float((matplotlib.image.imread(path)[..., :3] < 0.99).any(axis=-1).mean())


@pytest.mark.parametrize("episode", [0, 1])
def test_it_is_drawn(store, tmp_path, episode):
    draw_episode(store, episode, tmp_path / "p.png")
    assert ink(tmp_path / "p.png") > 0.05


def test_a_store_with_its_codec_shows_frames():
    store = open_store("embedded:metaworld12")
    latents, codec = store.read(0)["video_latents"], codec_of(store)
    assert codec is not None
    images, frames = strip(store, latents)
    decoded = codec.decode(latents)
    assert (len(images), frames[0], frames[-1]) == (SHOWN, 0, latents.shape[1] - 1)
    for image, frame in zip(images, frames, strict=True):
        np.testing.assert_array_equal(image, decoded[4 * frame])


def test_other_latents_are_shown_in_false_colours(store):
    latents = store.read(1)["video_latents"]
    images, frames = strip(store, latents)
    assert frames.tolist() == [0, 1, 2, 3]
    assert np.shape(images) == (4, 2, 2, 3)
    assert np.ptp(images) > 0.9
    assert false_colours(latents[:1]).shape == (4, 2, 2, 3)


def test_the_command_draws_the_episode_that_is_named(store, tmp_path, capsys):
    words = [str(store.path), "--episode", "ep1", "--picture", str(tmp_path / "p.png")]
    assert inspect.main(words) == 0
    assert ink(tmp_path / "p.png") > 0.05
    assert "sound" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--picture", "p.png"], "goes with --episode"),
        (["--episode", "ep0"], "goes with --episode"),
        (["--episode", "ep7", "--picture", "p.png"], "--episode = 'ep7'"),
        (["--episode", "ep0", "--picture", "p.txt"], "--picture = 'p.txt'"),
    ],
)
def test_what_cannot_be_drawn_is_said(store, tmp_path, monkeypatch, flags, said):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=said):
        inspect.main([str(store.path), *flags])


def test_episodes_have_names(store):
    assert find_episode(store, "ep1") == 1
