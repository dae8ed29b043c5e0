"""The stand-in codec: geometry, causality, inverse, and the fit."""

import hashlib

import numpy as np
import pytest

from wam_jax.data.encoders import codec_fit
from wam_jax.data.encoders.codec import KltCodec, blocks_of, codec_from_bytes, pad_frames, psnr
from wam_jax.data.encoders.codec_fit import fit_codec
from wam_jax.data.storage.tensorio import encode_tensors
from wam_jax.errors import InputError

PATCH = 2
VALUES = 4 * PATCH * PATCH * 3


def smooth_video(frames, seed=0, side=8):
    """A bright square that moves over a gradient."""
    rng = np.random.default_rng(seed)
    video = np.broadcast_to(np.linspace(40, 120, side)[None, :, None, None], (frames, side, side, 3)).copy()
    for t in range(frames):
        left = (t + rng.integers(side)) % (side - 2)
        video[t, 2:5, left : left + 2] += rng.uniform(60, 120, 3)
    return video.astype(np.uint8)


VIDEOS = [smooth_video(1 + 4 * k, seed=k) for k in (3, 5, 6)]


def fitted(channels):
    return fit_codec([len(video) for video in VIDEOS], VIDEOS.__getitem__, patch=PATCH, channels=channels)


@pytest.fixture(scope="module")
def codec():
    return fitted(12)


@pytest.fixture(scope="module")
def complete():
    return fitted(VALUES)


def test_frames_become_latents_of_the_wan_geometry(codec):
    latents = codec.encode(smooth_video(13))
    assert latents.shape == (12, 4, 4, 4)
    assert latents.dtype == np.float32
    decoded = codec.decode(latents)
    assert decoded.shape == (13, 8, 8, 3)
    assert decoded.dtype == np.uint8


def test_with_all_channels_nothing_is_lost(complete):
    video = smooth_video(9, seed=7)
    assert np.abs(complete.decode(complete.encode(video)).astype(int) - video).max() <= 1


def test_more_channels_lose_less(codec, complete):
    video = smooth_video(9, seed=7)
    qualities = [psnr(each.decode(each.encode(video)), video).mean() for each in (fitted(4), codec, complete)]
    assert qualities == sorted(qualities)
    assert qualities[1] > qualities[0] + 1


def test_later_frames_do_not_reach_earlier_latents(codec):
    video = smooth_video(13)
    changed = video.copy()
    changed[5:] = 255 - changed[5:]
    same = np.isclose(codec.encode(video), codec.encode(changed)).all(axis=(0, 2, 3))
    assert same.tolist() == [True, True, False, False]


def test_a_frame_alone_is_coded_like_the_first_one(codec):
    video = smooth_video(9)
    alone = codec.encode_frame(video)
    assert alone.shape == (12, 9, 4, 4)
    np.testing.assert_allclose(alone[:, 0], codec.encode(video)[:, 0], atol=1e-6)
    np.testing.assert_allclose(alone[:, 4:5], codec.encode(video[4:5]), atol=1e-6)


def test_decoding_frames_inverts_encoding_them(complete):
    video = smooth_video(5, seed=3)
    assert np.abs(complete.decode_frame(complete.encode_frame(video)).astype(int) - video).max() <= 1


def test_half_precision_latents_decode(codec):
    latents = codec.encode(smooth_video(9))
    difference = codec.decode(latents.astype(np.float16)).astype(int) - codec.decode(latents)
    assert np.abs(difference).max() <= 1


def thinned_blocks():
    blocks = [blocks_of(np.concatenate([video[:1].repeat(4, 0), video[1:]]), PATCH) for video in VIDEOS]
    return np.concatenate([block.reshape(-1, VALUES)[::5] for block in blocks])


def test_channels_have_unit_scale_on_the_data_of_the_fit(codec):
    coefficients = (thinned_blocks() - codec.block_mean) @ codec.basis.T.astype(np.float32)
    normalised = (coefficients - codec.mean) / codec.std
    np.testing.assert_allclose(normalised.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(normalised.std(axis=0), 1, atol=1e-4)


def test_the_basis_is_orthonormal_and_ordered_by_energy(codec):
    basis = codec.basis.astype(np.float32)
    np.testing.assert_allclose(basis @ basis.T, np.eye(12), atol=2e-3)
    assert (np.diff(codec.std) <= 1e-5).all()


def test_the_fit_takes_all_blocks_when_they_are_few(codec):
    np.testing.assert_allclose(codec.block_mean, thinned_blocks().mean(axis=0), atol=1e-5)


def test_the_fit_is_of_a_bounded_sample(monkeypatch):
    monkeypatch.setattr(codec_fit, "MAX_BLOCKS", 40)
    bounded = fitted(12)
    assert not np.allclose(bounded.block_mean, thinned_blocks().mean(axis=0), atol=1e-5)
    np.testing.assert_array_equal(bounded.block_mean, fitted(12).block_mean)


def test_it_survives_a_file(codec):
    data = codec.to_bytes()
    copy = codec_from_bytes(data, source="memory")
    video = smooth_video(5)
    np.testing.assert_array_equal(copy.encode(video), codec.encode(video))
    assert copy.to_bytes() == data
    assert copy.record == codec.record


def test_the_record_says_what_it_is(codec):
    record = codec.record
    assert (record.name, record.kind) == ("klt-p2c12", "stand-in")
    assert (record.spatial_stride, record.temporal_stride, record.channels) == (2, 4, 12)
    assert record.sha256 == hashlib.sha256(codec.to_bytes()).hexdigest()


def test_a_file_without_its_arrays_is_refused(codec):
    data = encode_tensors({"basis": codec.basis})
    with pytest.raises(InputError, match=r"here = \['block_mean', 'mean', 'std'\]"):
        codec_from_bytes(data, source="here")


@pytest.mark.parametrize(
    ("frames", "message"),
    [(np.zeros((4, 8, 8, 3), np.uint8), r"frames = 4: 1 \+ 4k"), (np.zeros((5, 8, 7, 3), np.uint8), "multiples of 2")],
)
def test_sizes_that_do_not_fit_are_refused(codec, frames, message):
    with pytest.raises(InputError, match=message):
        codec.encode(frames)


@pytest.mark.parametrize("channels", [0, VALUES + 1])
def test_a_fit_of_impossible_size_is_refused(channels):
    with pytest.raises(InputError, match="channels = "):
        fitted(channels)


@pytest.mark.parametrize(("length", "padded"), [(1, 1), (2, 5), (5, 5), (7, 9)])
def test_padding_repeats_the_last_frame(length, padded):
    assert pad_frames(np.arange(length)).tolist() == [*range(length), *[length - 1] * (padded - length)]


def test_psnr_is_in_decibels_per_frame():
    black = np.zeros((2, 4, 4, 3), np.uint8)
    grey = black.copy()
    grey[1] = 51
    assert psnr(grey, black)[1] == pytest.approx(20 * np.log10(5), abs=1e-4)
    assert psnr(grey, black)[0] > 100


def test_a_codec_is_built_from_its_parts():
    identity = KltCodec(np.eye(12, dtype=np.float16), *(np.full(12, value, np.float32) for value in (0, 0, 1)))
    assert identity.patch == 1
    white = np.full((1, 1, 1, 3), 255, np.uint8)
    np.testing.assert_allclose(identity.encode(white)[:, 0, 0, 0], 1)
