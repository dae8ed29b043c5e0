"""A cache of text vectors on disk: how vectors of T5-class encoders reach a run without the encoder.

Two files in one directory. `text.json` names the encoder and maps a key to its prompt; `text.safetensors` maps the key
to the prompt's vectors `[L, dim]` without the zero rows at the end, which reading restores. The key is the sha256 of
the prompt in UTF-8. A prompt that the cache does not hold is an error, never zeros.
"""

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping

import numpy as np
from etils import epath

from wam_jax.data.encoders.text import EMPTY_PROMPT, TextEncoder, pad_tokens, record_of
from wam_jax.data.jsonio import from_json
from wam_jax.data.storage.manifest import TextRecord
from wam_jax.data.storage.tensorio import TensorFile, encode_tensors
from wam_jax.errors import InputError

SCHEMA = "wam_jax.text.v1"
DESCRIPTION, VECTORS = "text.json", "text.safetensors"


@dataclasses.dataclass(frozen=True)
class _Description:
    schema: str
    encoder: TextRecord
    prompts: Mapping[str, str]


def prompt_key(prompt: str) -> str:
    """The name of a prompt's vectors in the cache."""
    return hashlib.sha256(prompt.encode()).hexdigest()


def write_text_cache(directory: epath.PathLike, encoder: TextEncoder, prompts: Iterable[str]) -> None:
    """Encodes `prompts` and the empty prompt, and writes the two files into an existing directory."""
    directory = epath.Path(directory)
    keys = {prompt_key(prompt): prompt for prompt in sorted({*prompts, EMPTY_PROMPT})}
    vectors = {key: _without_padding(encoder.encode(prompt)) for key, prompt in keys.items()}
    directory.joinpath(VECTORS).write_bytes(encode_tensors(vectors))
    description = {"schema": SCHEMA, "encoder": dataclasses.asdict(record_of(encoder)), "prompts": keys}
    directory.joinpath(DESCRIPTION).write_text(json.dumps(description, indent=1, ensure_ascii=False) + "\n")


class CachedTextEncoder:
    """A `TextEncoder` that looks prompts up in a cache.

    Thread-safe; pickles as its directory.
    """

    def __init__(self, directory: epath.PathLike, *, fingerprint: str | None = None) -> None:
        """
        Args:
            directory: where the two files lie.
            fingerprint: of the encoder that the caller relies on; None accepts the cache's own.
        Raises:
            InputError: a file is missing or damaged, or the cache was made by another encoder.
        """
        self._directory = epath.Path(directory)
        description = _read_description(self._directory / DESCRIPTION)
        self.record = description.encoder
        if fingerprint is not None and fingerprint != self.record.fingerprint:
            remedy = (
                f"made by {self.record.name!r}, not by the encoder in use ({fingerprint}); encode the prompts again"
            )
            raise InputError(f"{self._directory / DESCRIPTION}: fingerprint", self.record.fingerprint, remedy)
        self._prompts = frozenset(description.prompts.values())
        self._vectors = TensorFile(self._directory / VECTORS)
        missing = {prompt_key(prompt) for prompt in self._prompts}.difference(self._vectors.names())
        if missing:
            raise InputError(
                f"text cache {self._directory}", sorted(missing)[0], f"has no vectors in {VECTORS}; copy it again"
            )

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def dim(self) -> int:
        return self.record.dim

    @property
    def tokens(self) -> int:
        return self.record.tokens

    @property
    def fingerprint(self) -> str:
        return self.record.fingerprint

    @property
    def prompts(self) -> frozenset[str]:
        """All prompts that the cache holds."""
        return self._prompts

    def encode(self, prompt: str) -> np.ndarray:
        """`[tokens, dim]` float32; raises InputError for a prompt that the cache does not hold."""
        if prompt not in self._prompts:
            raise InputError("prompt", prompt, f"is not in the text cache {self._directory}; add it to the cache")
        where, vectors = f"text cache {self._directory}: prompt {prompt!r}", self._vectors.read(prompt_key(prompt))
        if vectors.ndim != 2 or vectors.shape[1] != self.dim or len(vectors) > self.tokens:
            raise InputError(where, vectors.shape, f"at most {self.tokens} rows of {self.dim}; encode it again")
        if not np.isfinite(vectors).all():
            raise InputError(where, "NaN or infinite", "finite vectors; encode it again")
        return pad_tokens(vectors.astype(np.float32), self.tokens)


def _read_description(path: epath.Path) -> _Description:
    try:
        raw = json.loads(path.read_text())
    except FileNotFoundError:
        raise InputError("text cache", str(path), "the file is missing; write the cache first") from None
    except ValueError as error:
        raise InputError(f"text cache {path}", str(error), "complete JSON; copy it again") from None
    if not isinstance(raw, dict) or raw.get("schema") != SCHEMA:
        raise InputError(f"{path}: schema", raw.get("schema") if isinstance(raw, dict) else raw, f"{SCHEMA!r}")
    return from_json(_Description, raw, where=str(path))


def _without_padding(vectors: np.ndarray) -> np.ndarray:
    used = np.flatnonzero(vectors.any(axis=1))
    return np.ascontiguousarray(vectors[: used[-1] + 1 if used.size else 0])
