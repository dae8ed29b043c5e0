"""Encoders: where they come from, and what is asked of them."""

import dataclasses

import numpy as np
import pytest

from tests.data.conversion.commands import MEANS, MeanEncoder, codec_file, small_codec
from wam_jax.data.conversion.encoders import FrameEncoder, LatentEncoder, check_record, choose, encode_video
from wam_jax.errors import InputError

FRAMES = np.random.default_rng(0).integers(0, 256, (7, 16, 24, 3), dtype=np.uint8)


def test_a_codec_is_an_encoder_with_both_halves():
    codec = small_codec()
    assert isinstance(codec, LatentEncoder)
    assert isinstance(codec, FrameEncoder)
    video, alone = encode_video(codec, FRAMES, anchored=True)
    assert alone is not None
    assert video.shape == alone.shape == (6, 3, 2, 3)
    np.testing.assert_array_equal(alone, codec.encode_frame(FRAMES[[0, 4, 6]]))
    np.testing.assert_array_equal(video, codec.encode(np.concatenate([FRAMES, FRAMES[-1:], FRAMES[-1:]])))


def test_an_encoder_without_the_second_half_gives_none():
    assert encode_video(MeanEncoder(), FRAMES, anchored=True)[1] is None
    assert encode_video(small_codec(), FRAMES, anchored=False)[1] is None


def test_codecs_of_files_and_of_stores(tmp_path):
    assert choose(f"codec:{codec_file(tmp_path)}").load().record == small_codec().record
    assert choose("codec:embedded:metaworld12").load().record.name == "klt-p16c48"


def test_a_function_of_an_importable_module():
    assert choose("tests.data.conversion.commands:MeanEncoder").load().record == MEANS


class Raises(MeanEncoder):
    def encode(self, frames):  # noqa: ARG002 - it has the interface.
        raise RuntimeError("out of memory")


class Whole(MeanEncoder):
    def encode(self, frames):
        return super().encode(frames).astype(np.int32)


@pytest.mark.parametrize(("encoder", "said"), [(Raises(), "RuntimeError: out of memory"), (Whole(), "floats of shape")])
def test_what_goes_wrong_is_said_in_one_line(encoder, said):
    with pytest.raises(InputError, match=said):
        encode_video(encoder, FRAMES, anchored=False)


@pytest.mark.parametrize("change", [{"temporal_stride": 8}, {"spatial_stride": 0}, {"channels": 0}])
def test_records_that_do_not_align_are_refused(change):
    with pytest.raises(InputError, match="encoder"):
        check_record(dataclasses.replace(MEANS, **change))
