"""The cache through which vectors of real text encoders come."""

import json
import pickle

import ml_dtypes
import numpy as np
import pytest

from wam_jax.data.encoders.text import HashedWordEncoder
from wam_jax.data.storage.tensorio import decode_tensors, encode_tensors
from wam_jax.data.storage.text_cache import DESCRIPTION, VECTORS, CachedTextEncoder, prompt_key, write_text_cache
from wam_jax.errors import InputError

ENCODER = HashedWordEncoder(dim=4, tokens=6)


@pytest.fixture
def cache(tmp_path):
    write_text_cache(tmp_path, ENCODER, ["push it", "pull"])
    return tmp_path


def test_every_prompt_comes_back_as_it_was_encoded(cache):
    cached = CachedTextEncoder(cache, fingerprint=ENCODER.fingerprint)
    for prompt in ("push it", "pull", ""):
        np.testing.assert_array_equal(cached.encode(prompt), ENCODER.encode(prompt))
    assert cached.prompts == {"push it", "pull", ""}
    assert (cached.name, cached.dim, cached.tokens) == ("hashed-words", 4, 6)


def test_padding_is_not_stored(cache):
    stored = decode_tensors((cache / VECTORS).read_bytes(), source="cache")
    assert len(stored[prompt_key("push it")]) == 3


def test_an_unknown_prompt_is_refused(cache):
    with pytest.raises(InputError, match="prompt = 'lift': is not in the text cache"):
        CachedTextEncoder(cache).encode("lift")


def test_another_encoder_is_refused(cache):
    with pytest.raises(InputError, match=r"fingerprint = .* made by 'hashed-words', not by the encoder in use"):
        CachedTextEncoder(cache, fingerprint=HashedWordEncoder().fingerprint)


def test_bfloat16_vectors_are_read(cache):
    vectors = decode_tensors((cache / VECTORS).read_bytes(), source="cache")
    rounded = {name: vector.astype(ml_dtypes.bfloat16) for name, vector in vectors.items()}
    (cache / VECTORS).write_bytes(encode_tensors(rounded))
    encoded = CachedTextEncoder(cache).encode("pull")
    assert encoded.dtype == np.float32
    np.testing.assert_allclose(encoded, ENCODER.encode("pull"), rtol=2**-8)


def test_it_pickles(cache):
    cached = CachedTextEncoder(cache)
    cached.encode("pull")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(cached)).encode("pull"), ENCODER.encode("pull"))


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (np.ones((2, 3), np.float32), r"\(2, 3\): at most 6 rows of 4"),
        (np.ones((7, 4), np.float32), r"\(7, 4\): at most 6 rows of 4"),
        (np.full((1, 4), np.inf, np.float32), "finite vectors"),
    ],
)
def test_vectors_that_do_not_fit_are_refused(cache, vectors, message):
    stored = decode_tensors((cache / VECTORS).read_bytes(), source="cache")
    (cache / VECTORS).write_bytes(encode_tensors(stored | {prompt_key("pull"): vectors}))
    with pytest.raises(InputError, match=message):
        CachedTextEncoder(cache).encode("pull")


@pytest.mark.parametrize("file", [DESCRIPTION, VECTORS])
@pytest.mark.parametrize("damage", ["missing", "truncated"])
def test_a_damaged_cache_is_refused(cache, file, damage):
    content = (cache / file).read_bytes()
    (cache / file).unlink()
    if damage == "truncated":
        (cache / file).write_bytes(content[:-5])
    with pytest.raises(InputError, match=file):
        CachedTextEncoder(cache)


def test_a_prompt_without_vectors_is_found_at_once(cache):
    description = json.loads((cache / DESCRIPTION).read_text())
    description["prompts"][prompt_key("lift")] = "lift"
    (cache / DESCRIPTION).write_text(json.dumps(description))
    with pytest.raises(InputError, match="has no vectors"):
        CachedTextEncoder(cache)


def test_a_newer_cache_is_refused(cache):
    (cache / DESCRIPTION).write_text('{"schema": "wam_jax.text.v2"}')
    with pytest.raises(InputError, match=r"schema = 'wam_jax.text.v2'"):
        CachedTextEncoder(cache)
