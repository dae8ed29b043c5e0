"""The stand-in text encoder."""

import hashlib

import numpy as np
import pytest

from wam_jax.data.encoders.text import EMPTY_PROMPT, HashedWordEncoder, record_of
from wam_jax.errors import InputError

ENCODER = HashedWordEncoder()


def test_the_vectors_are_the_same_on_every_platform():
    vectors = ENCODER.encode("open the drawer")
    assert hashlib.sha256(vectors.astype("<f4").tobytes()).hexdigest()[:16] == "540e715dac6c93e2"


def test_one_row_per_word_then_the_end_mark_then_zeros():
    vectors = ENCODER.encode("open the drawer")
    assert vectors.shape == (16, 64)
    assert vectors.dtype == np.float32
    assert vectors.any(axis=1).tolist() == [True] * 4 + [False] * 12


def test_a_word_has_one_vector_wherever_it_stands():
    first, second = ENCODER.encode("Open, the drawer!"), ENCODER.encode("the open")
    np.testing.assert_array_equal(first[:2], second[[1, 0]])
    assert not np.array_equal(first[0], first[1])


def test_the_empty_prompt_is_the_end_mark_alone():
    np.testing.assert_array_equal(ENCODER.encode(EMPTY_PROMPT)[0], ENCODER.encode("open")[1])


def test_entries_have_unit_variance():
    words = np.concatenate([HashedWordEncoder(dim=256).encode(f"w{i}")[:1] for i in range(100)])
    assert abs(words.mean()) < 0.03
    assert abs(words.var() - 1) < 0.03


def test_a_prompt_that_does_not_fit_is_refused():
    with pytest.raises(InputError, match="prompt = 'one two three': has 4 words with the end mark; at most 3"):
        HashedWordEncoder(tokens=3).encode("one two three")


def test_the_fingerprint_tells_encoders_apart():
    encoders = [ENCODER, HashedWordEncoder(dim=32), HashedWordEncoder(tokens=32)]
    assert len({encoder.fingerprint for encoder in encoders}) == 3
    assert record_of(ENCODER).fingerprint == HashedWordEncoder(dim=64, tokens=16).fingerprint
