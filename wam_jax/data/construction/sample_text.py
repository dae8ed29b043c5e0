"""The text tokens of a sample: from its own payload, else from the store's cache of prompts, else zeros.

How many there are follows from the index, so that a plan knows it. A sample without any text has `max_text_tokens` zero
tokens. Dropped text becomes the negative context where there is one, else zeros; removed text is always zeros.
"""

from collections.abc import Mapping

import numpy as np

from wam_jax.data.encoders.text import EMPTY_PROMPT
from wam_jax.data.storage.index import ABSENT, Index
from wam_jax.data.storage.manifest import Manifest
from wam_jax.data.storage.store import Store


def text_lengths(index: Index, manifest: Manifest, *, max_text_tokens: int) -> np.ndarray:
    """Text tokens of every episode: int64[episodes]."""
    otherwise = manifest.text.tokens if manifest.text else max_text_tokens
    own = index.extents["text_context"].astype(np.int64)
    return np.where(own == ABSENT, otherwise, own)


def text_tokens(store: Store, episode: int, arrays: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """The prompt's vectors: float32[tokens, text_dim], or None where the sample has no text."""
    if "text_context" in arrays:
        return np.asarray(arrays["text_context"], np.float32)
    return store.text(store.index.instructions[episode]) if store.manifest.text else None


def negative_tokens(store: Store, arrays: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """The vectors that stand in for a dropped prompt, in the prompt's shape, or None where zeros do."""
    if "negative_text_context" in arrays:
        return np.asarray(arrays["negative_text_context"], np.float32)
    return store.text(EMPTY_PROMPT) if store.manifest.text and "text_context" not in arrays else None
