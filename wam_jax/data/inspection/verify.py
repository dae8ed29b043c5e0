"""Checking a whole store: every promise of the format against the bytes on disk."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np

from wam_jax.data.files import file_size
from wam_jax.data.inspection.traits import Traits, gather
from wam_jax.data.storage.fields import BY_NAME
from wam_jax.data.storage.index import ABSENT, fingerprint_of
from wam_jax.data.storage.mixture import Mixture
from wam_jax.data.storage.store import CODEC, Store, check_files, check_text
from wam_jax.data.storage.tensorio import decode_tensors
from wam_jax.data.storage.validate import check_index, validate_sample
from wam_jax.errors import InputError


def verify_episode(store: Store, episode: int) -> dict[str, np.ndarray]:
    """Reads one episode and checks everything about it.

    Returns:
        Its arrays.
    Raises:
        InputError: the payload is missing or damaged, its checksum differs, its arrays are no valid sample, or their
            lengths differ from the index.
    """
    sample_id = store.index.ids[episode]
    payload = store.read_bytes(episode)
    digest, wanted = hashlib.sha256(payload).hexdigest(), store.index.sha256[episode].hex()
    if digest != wanted:
        raise InputError(f"sample {sample_id}: checksum", digest, f"{wanted} was written; copy the store again")
    arrays = decode_tensors(payload, source=f"sample {sample_id}")
    validate_sample(arrays, store.manifest, sample_id=sample_id)
    for name, extents in store.index.extents.items():
        found = arrays[name].shape[BY_NAME[name].time_axis] if name in arrays else ABSENT
        if found != extents[episode]:
            remedy = f"the index says {extents[episode]} ({ABSENT} is absent); write the store again"
            raise InputError(f"sample {sample_id}: {name}", found, remedy)
    return arrays


def gather_sound(store: Store, rows: Iterable[int]) -> tuple[Traits, list[str]]:
    """Reads and checks the episodes `rows`; what the sound ones have in common, and a line for each that is not."""
    broken: list[str] = []

    def read(episode: int) -> dict[str, np.ndarray] | None:
        try:
            return verify_episode(store, episode)
        except InputError as error:
            broken.append(str(error))
            return None

    return gather(store, read, rows), broken


def find_problems(
    store: Store,
    *,
    payloads: bool,
    progress: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> Iterator[str]:
    """Yields one line for everything that is wrong.

    Args:
        payloads: whether to read and check every episode too; without, only what needs no payload.
        progress: wraps the episodes that are read.
    """
    parts = store.stores if isinstance(store, Mixture) else (store,)
    checks: list[Callable[[], object]] = [
        *(partial(check_files, part) for part in parts),
        lambda: check_index(store.index, store.manifest),
        lambda: check_unique(store.index.ids),
        lambda: check_text(store),
        lambda: check_fingerprint(store),
        *(partial(check_codec, part) for part in parts),
    ]
    for check in checks:
        yield from _complaint(check)
    if payloads:
        for episode in progress(range(len(store))):
            yield from _complaint(lambda episode=episode: verify_episode(store, episode))


def check_unique(ids: np.ndarray) -> None:
    """Raises InputError where two episodes share an id."""
    names, counts = np.unique(ids.astype(str), return_counts=True)
    if (counts > 1).any():
        raise InputError("index: id", str(names[counts > 1][0]), "is there more than once; ids must be unique")


def check_fingerprint(store: Store) -> None:
    """Raises InputError where the index is not the one that the manifest was written with."""
    found = fingerprint_of(store.index)
    if found != store.manifest.index_fingerprint:
        raise InputError("index: fingerprint", found, f"{store.manifest.index_fingerprint} was written; copy it again")


def check_codec(store: Store) -> None:
    """Raises InputError where the store holds another codec than made its latents."""
    path = store.path / CODEC
    try:
        file_size(path)
    except FileNotFoundError:
        return
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != store.manifest.encoder.sha256:
        raise InputError(f"{path}: checksum", found, f"{store.manifest.encoder.sha256} was written; copy it again")


def _complaint(check: Callable[[], object]) -> Iterator[str]:
    try:
        check()
    except InputError as error:
        yield str(error)
