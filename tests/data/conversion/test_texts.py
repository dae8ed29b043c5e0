"""Where text vectors come from."""

import numpy as np
import pytest

from wam_jax.data.conversion.texts import given_text, open_text
from wam_jax.data.encoders.text import HashedWordEncoder, record_of
from wam_jax.data.storage.text_cache import write_text_cache
from wam_jax.errors import InputError

EMPTY = np.ones((2, 3), np.float32)


def test_the_stand_in_has_room_for_the_longest_prompt():
    long = " ".join("word" for _ in range(40))
    encoder = open_text("stand-in", ["short", long])
    assert encoder is not None
    assert encoder.tokens == 48
    assert encoder.encode(long).shape == (48, 64)


def test_none_is_none():
    assert open_text("none", ["x"]) is None


def test_a_cache_must_have_every_prompt(tmp_path):
    write_text_cache(tmp_path, HashedWordEncoder(), ["wipe"])
    encoder = open_text(str(tmp_path), ["wipe"])
    assert encoder is not None
    assert record_of(encoder) == record_of(HashedWordEncoder())
    with pytest.raises(InputError, match="prompt = 'fold'"):
        open_text(str(tmp_path), ["wipe", "fold"])


def test_given_vectors_are_padded_to_the_longest():
    vectors = np.arange(12, dtype=np.float32).reshape(4, 3)
    encoder = given_text([("wipe", vectors), ("wipe", vectors), ("", None)], EMPTY)
    assert (encoder.dim, encoder.tokens) == (3, 4)
    np.testing.assert_array_equal(encoder.encode(""), [[1, 1, 1], [1, 1, 1], [0, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(encoder.encode("wipe"), vectors)
    with pytest.raises(InputError, match="has no vectors"):
        encoder.encode("fold")


def test_the_fingerprint_is_that_of_the_vectors():
    same, other = (given_text([("wipe", EMPTY * scale)], EMPTY) for scale in (1, 2))
    assert same.fingerprint == given_text([("wipe", EMPTY)], EMPTY).fingerprint != other.fingerprint


@pytest.mark.parametrize(
    ("pairs", "empty", "said"),
    [
        ([("wipe", EMPTY)], None, "--empty-text"),
        ([("wipe", None)], EMPTY, "every episode brings"),
        ([("wipe", EMPTY), ("wipe", 2 * EMPTY)], EMPTY, "the same vectors"),
        ([("wipe", np.ones((2, 4)))], EMPTY, "of one size"),
    ],
)
def test_what_is_missing_or_differs_is_refused(pairs, empty, said):
    with pytest.raises(InputError, match=said):
        given_text(pairs, empty)
