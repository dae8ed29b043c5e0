"""Reading a trajectory store: `open_store(path)`.

A store is a directory (docs/data-format.md):

    store.json                         the manifest; written last, so a store that has it is complete
    index.parquet                      one row per episode, no tensors
    payload-*.array_record             or episodes/*.safetensors
    text.json, text.safetensors        vectors of every prompt, and of the empty one
    codec.safetensors                  optional: the encoder that made the latents

Opening checks everything that needs no payload I/O, so that a damaged or foreign store is refused before a model is
built. A store may be shared by threads and pickles as its path.
"""

from collections.abc import Iterable
from functools import cached_property
from importlib import resources
from typing import Any

import numpy as np
from etils import epath

from wam_jax.data.files import file_size, is_remote
from wam_jax.data.storage.fields import BY_NAME
from wam_jax.data.storage.index import Index
from wam_jax.data.storage.manifest import Manifest, parse_manifest
from wam_jax.data.storage.payloads import (
    EpisodeFileReader,
    PartOf,
    PayloadReader,
    ShardReader,
    episode_file,
    everything,
)
from wam_jax.data.storage.tensorio import Part
from wam_jax.data.storage.text_cache import CachedTextEncoder
from wam_jax.data.storage.validate import check_index
from wam_jax.errors import InputError

MANIFEST, INDEX, CODEC = "store.json", "index.parquet", "codec.safetensors"
_EMBEDDED = "embedded:"


class Store:
    """A complete store on disk.

    Attributes:
        path: the directory.
        manifest: what holds for all episodes.
        index: one row per episode.
    """

    def __init__(self, path: epath.PathLike, manifest: Manifest) -> None:
        self.path = epath.Path(path)
        self.manifest = manifest
        self.index = Index(self.path / INDEX)

    def __len__(self) -> int:
        return len(self.index)

    @property
    def fingerprint(self) -> str:
        """Hexadecimal hash of the data, the same in every container (`Manifest.fingerprint`)."""
        return self.manifest.fingerprint

    def read(self, episode: int, *, frames: tuple[int, int] | None = None) -> dict[str, np.ndarray]:
        """The arrays of one episode, as stored; read-only.

        Args:
            episode: position in the index.
            frames: latent frames [start, stop) that are wanted, or None for all. Every field is cut to the rows that
                these frames own (`wam_jax.data.storage.units`). Group 0 of the cut then holds the actions that lead
                into its first frame, which the cut does not show: see
                `wam_jax.data.construction.actions.fill_first_group`.
        Raises:
            InputError: the payload is missing or damaged.
        """
        arrays = self._payloads.read_arrays(*self._place(episode), self._parts(episode, frames))
        for array in arrays.values():
            array.flags.writeable = False
        return arrays

    def read_bytes(self, episode: int) -> bytes:
        """The serialized payload, for checksums."""
        return self._payloads.read_bytes(*self._place(episode))

    def text(self, instruction: str) -> np.ndarray:
        """`[tokens, text_dim]` float32, read-only; the empty prompt gives the negative context.

        Raises:
            InputError: the store has no text, or not of this instruction.
        """
        if self.manifest.text is None:
            raise InputError("store.json: text", None, "this store has no text; write it with a text encoder")
        return self._texts.encode(instruction)

    @property
    def prompts(self) -> frozenset[str]:
        """All prompts that `text` knows."""
        return self._texts.prompts

    @cached_property
    def _texts(self) -> CachedTextEncoder:
        return CachedTextEncoder(self.path, fingerprint=self.manifest.text.fingerprint if self.manifest.text else None)

    @cached_property
    def _payloads(self) -> PayloadReader:
        if self.manifest.payload.format == "safetensors":
            return EpisodeFileReader(self.path)
        return ShardReader([self.path / shard.name for shard in self.manifest.payload.shards])

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.manifest)

    def _place(self, episode: int) -> tuple[int, int]:
        return int(self.index.shards[episode]), int(self.index.records[episode])

    def _parts(self, episode: int, frames: tuple[int, int] | None) -> PartOf:
        if frames is None:
            return everything
        start, stop = frames
        total = int(self.index.extents["video_latents"][episode])
        if not 0 <= start < stop <= total:
            raise InputError(f"sample {self.index.ids[episode]}: frames", frames, f"0 <= start < stop <= {total}")

        def part_of(name: str) -> Part:
            field = BY_NAME[name]
            return (slice(None),) * field.time_axis + (self.manifest.units.rows(field.unit, start, stop),)

        return part_of


def open_store(path: epath.PathLike, *, check: bool = True) -> Store:
    """Opens a store.

    Args:
        path: a directory, local or remote, or `embedded:NAME` for one that comes with the package.
        check: whether to check files, lengths and text (`check_files`, `check_index`, `check_text`).
    Raises:
        InputError: there is no complete store at `path`, it has a newer schema, a file is missing or truncated, or
            the index disagrees with itself or with the manifest.
    """
    directory = _resolve(path)
    try:
        text = directory.joinpath(MANIFEST).read_text()
    except (FileNotFoundError, NotADirectoryError):
        remedy = f"a store directory with a {MANIFEST}, or one of {', '.join(_embedded_names())}"
        raise InputError("store", str(path), remedy) from None
    store = Store(directory, parse_manifest(text, source=str(directory / MANIFEST)))
    if check:
        check_files(store)
        check_index(store.index, store.manifest)
        check_text(store)
    return store


def check_files(store: Store) -> None:
    """Checks that index and payload files are there in the sizes that were written.

    A file per episode means one look at the directory per episode, a shard one per shard.

    Raises:
        InputError: naming the file, or the store where shards lie on a remote disk.
    """
    if len(store.index) != store.manifest.num_episodes:
        remedy = f"rows, but {MANIFEST} counts {store.manifest.num_episodes}; copy the store again"
        raise InputError(f"index {store.path / INDEX}", len(store.index), remedy)
    if store.manifest.payload.format == "array_record" and is_remote(store.path):
        raise InputError(
            "store", str(store.path), "ArrayRecord needs a local or mounted disk; copy it, or use safetensors"
        )
    for name, num_bytes in _payload_files(store):
        path = store.path / name
        try:
            found = file_size(path)
        except FileNotFoundError:
            raise InputError("payload", str(path), "the file is missing; copy the store again") from None
        if found != num_bytes:
            raise InputError(f"payload {path}", found, f"bytes, but {num_bytes} were written; copy it again")


def check_text(store: Store) -> None:
    """Raises InputError where the store has text, but not of every instruction."""
    if store.manifest.text is None:
        return
    missing = sorted(set(store.index.instructions) - store.prompts)
    if missing:
        raise InputError("text", missing[0], f"{len(missing)} instructions have no vectors; write the store again")


def _payload_files(store: Store) -> Iterable[tuple[str, int]]:
    if store.manifest.payload.format == "array_record":
        return [(shard.name, shard.num_bytes) for shard in store.manifest.payload.shards]
    records, num_bytes = store.index.records.tolist(), store.index.num_bytes.tolist()
    return [(episode_file(record), size) for record, size in zip(records, num_bytes, strict=True)]


def _resolve(path: epath.PathLike) -> epath.Path:
    if isinstance(path, str) and path.startswith(_EMBEDDED):
        return _assets() / path.removeprefix(_EMBEDDED)
    return epath.Path(path).expanduser()


def _assets() -> epath.Path:
    return epath.Path(str(resources.files("wam_jax") / "assets"))


def _embedded_names() -> list[str]:
    return [_EMBEDDED + item.name for item in sorted(_assets().iterdir()) if item.joinpath(MANIFEST).exists()]
