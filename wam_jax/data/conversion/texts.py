"""Where the vectors of instructions come from: the source itself, a cache, the stand-in, or nowhere."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from etils import epath

from wam_jax.data.encoders.text import EMPTY_PROMPT, HashedWordEncoder, TextEncoder, pad_tokens
from wam_jax.data.storage.text_cache import CachedTextEncoder
from wam_jax.errors import InputError

NONE, STAND_IN, SOURCE = "none", "stand-in", "source"
_ROWS = 16


@dataclass(frozen=True, eq=False)
class GivenText:
    """A `TextEncoder` of vectors that a source gave.

    Attributes:
        vectors: prompt to `[L, dim]`; the empty prompt is there.
    """

    vectors: Mapping[str, np.ndarray]

    @property
    def name(self) -> str:
        return "given by the source"

    @property
    def dim(self) -> int:
        return self.vectors[EMPTY_PROMPT].shape[1]

    @property
    def tokens(self) -> int:
        return max(map(len, self.vectors.values()))

    @property
    def fingerprint(self) -> str:
        digest = hashlib.sha256(f"{self.dim} {self.tokens}".encode())
        for prompt in sorted(self.vectors):
            digest.update(prompt.encode() + b"\0" + np.ascontiguousarray(self.vectors[prompt], np.float32).tobytes())
        return digest.hexdigest()

    def encode(self, prompt: str) -> np.ndarray:
        if prompt not in self.vectors:
            raise InputError("prompt", prompt, "has no vectors in the source; see --text")
        return pad_tokens(self.vectors[prompt].astype(np.float32), self.tokens)


def given_text(pairs: Iterable[tuple[str, np.ndarray | None]], empty: np.ndarray | None) -> GivenText:
    """An encoder of what the episodes brought.

    Args:
        pairs: instruction and `[tokens, dim]` of each episode.
        empty: of the empty prompt.
    Raises:
        InputError: vectors are missing, or an instruction has different ones in two episodes.
    """
    if empty is None:
        raise InputError("--empty-text", None, "vectors of the empty prompt (empty_emb.pt), or another --text")
    vectors: dict[str, np.ndarray] = {EMPTY_PROMPT: empty}
    for instruction, found in pairs:
        if found is None:
            if instruction == EMPTY_PROMPT:
                continue
            raise InputError("--text source", instruction, "every episode brings the vectors of its instruction")
        known = vectors.setdefault(instruction, found)
        if found.shape[1] != empty.shape[1] or not np.array_equal(known, found):
            raise InputError("--text source", instruction, "the same vectors, of one size, in all its episodes")
    return GivenText(vectors)


def open_text(choice: str, instructions: Iterable[str]) -> TextEncoder | None:
    """The encoder of `--text`, which is `none`, `stand-in` or the directory of a cache.

    Raises:
        InputError: the cache is damaged or lacks an instruction.
    """
    wanted = sorted(set(instructions))
    if choice == NONE:
        return None
    if choice == STAND_IN:
        longest = 1 + max((len(re.findall(r"\w+", prompt)) for prompt in wanted), default=0)
        encoder = HashedWordEncoder(tokens=_ROWS * -(-longest // _ROWS))
    else:
        encoder = CachedTextEncoder(epath.Path(choice))
    for prompt in wanted:
        encoder.encode(prompt)
    return encoder
