"""Prompts to text vectors: the interface, and a deterministic stand-in that needs no weights.

A text context is `[tokens, dim]` float32. Rows past the prompt are zero, as in caches of T5-class encoders, and are
not masked out: they take part in cross-attention. Vectors of real encoders come through a cache
(`wam_jax.data.storage.text_cache`).
"""

import hashlib
import re
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from wam_jax.data.storage.manifest import TextRecord
from wam_jax.errors import InputError

EMPTY_PROMPT = ""
_END = "</s>"


class TextEncoder(Protocol):
    """A pure function from a prompt to `[tokens, dim]` float32.

    Attributes:
        name: which encoder.
        dim: width of a vector.
        tokens: rows of every context.
        fingerprint: hexadecimal; two encoders with one fingerprint give the same vectors for every prompt.
    """

    @property
    def name(self) -> str: ...
    @property
    def dim(self) -> int: ...
    @property
    def tokens(self) -> int: ...
    @property
    def fingerprint(self) -> str: ...

    def encode(self, prompt: str) -> np.ndarray:
        """The vectors of one prompt, zero-padded to `tokens` rows; raises InputError if it does not fit."""
        ...


def record_of(encoder: TextEncoder) -> TextRecord:
    """What a manifest says of `encoder`."""
    return TextRecord(name=encoder.name, dim=encoder.dim, tokens=encoder.tokens, fingerprint=encoder.fingerprint)


def pad_tokens(vectors: np.ndarray, tokens: int) -> np.ndarray:
    """`[L, dim]` to `[tokens, dim]` with zero rows at the end."""
    return np.pad(vectors, ((0, tokens - len(vectors)), (0, 0)))


@dataclass(frozen=True)
class HashedWordEncoder:
    """One fixed vector per word, from a hash of the word: a stand-in that knows words apart but no meaning.

    Entries are uniform on (-√3, √3): mean 0, variance 1, and computed by exactly rounded operations alone, so they are
    bitwise the same on every platform. Case and punctuation are ignored. The words are followed by an end mark, so the
    empty prompt differs from absent text (all zeros).
    """

    dim: int = 64
    tokens: int = 16

    @property
    def name(self) -> str:
        return "hashed-words"

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(f"{self.name} v1 dim={self.dim} tokens={self.tokens}".encode()).hexdigest()

    def encode(self, prompt: str) -> np.ndarray:
        words = [*re.findall(r"\w+", prompt.lower()), _END]
        if len(words) > self.tokens:
            raise InputError(
                "prompt", prompt, f"has {len(words)} words with the end mark; at most {self.tokens} (raise `tokens`)"
            )
        return pad_tokens(np.stack([_word_vector(word, self.dim) for word in words]), self.tokens)


def _word_vector(word: str, dim: int) -> np.ndarray:
    integers = np.frombuffer(hashlib.shake_256(word.encode()).digest(2 * dim), dtype="<u2")
    return ((integers + 0.5) / 65536 * np.sqrt(12) - np.sqrt(3)).astype(np.float32)
