"""From finished episodes to a store: in the order of the list, so that the same episodes give the same bytes."""

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from wam_jax.data.conversion.content import Listed
from wam_jax.data.conversion.report import Skipped
from wam_jax.data.conversion.spool import Spool
from wam_jax.data.conversion.work import TEXT
from wam_jax.data.encoders.text import TextEncoder
from wam_jax.data.storage.manifest import EncoderRecord, Manifest
from wam_jax.data.storage.tensorio import TensorFile, decode_tensors
from wam_jax.data.storage.writer import Episode, StoreWriter
from wam_jax.errors import InputError


@dataclass(frozen=True)
class Packing:
    """How a store is written; see `StoreWriter`."""

    encoder: EncoderRecord
    actions_per_frame: int
    text: TextEncoder | None
    codec: bytes | None
    payload: str
    compression: str
    provenance: Mapping[str, Any]


def pack(
    path: Path,
    spool: Spool,
    listed: Sequence[Listed],
    packing: Packing,
    *,
    numbers: Iterable[int],
    progress: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> list[Skipped]:
    """Writes a store of the finished episodes `numbers`.

    Returns:
        Episodes that do not fit those before them, and why; they are not in the store.
    Raises:
        InputError: nothing is left to write.
    """
    refused: list[Skipped] = []
    with StoreWriter(
        path,
        encoder=packing.encoder,
        actions_per_frame=packing.actions_per_frame,
        text_encoder=packing.text,
        payload=packing.payload,
        compression=packing.compression,
        codec=packing.codec,
        provenance=packing.provenance,
    ) as writer:
        for number in progress(numbers):
            item, file = listed[number], spool.episode(number)
            arrays = decode_tensors(file.read_bytes(), source=str(file))
            try:
                writer.add(_episode(item), {name: array for name, array in arrays.items() if name != TEXT})
            except InputError as error:
                refused.append(Skipped(item.id, str(error)))
        if refused:
            writer.note(skipped_in_packing=[dataclasses.asdict(item) for item in refused])
    return refused


def texts_of(spool: Spool, listed: Sequence[Listed], numbers: Iterable[int]) -> Iterator[tuple[str, np.ndarray | None]]:
    """Instruction and source's text vectors of every finished episode."""
    for number in numbers:
        file = TensorFile(spool.episode(number))
        yield listed[number].instruction, file.read(TEXT) if TEXT in file.names() else None


def provenance_of(layout: str, listed: Sequence[Listed], **facts: Any) -> dict[str, Any]:
    """What the store says of its making."""
    branches = {item.id: list(item.parent) for item in listed if item.parent}
    return {
        "made_by": "python -m wam_jax.data.convert",
        "layout": layout,
        "versions": {package: version(package) for package in ("wam-jax", "numpy", "av")},
        "listing": listing_digest(listed),
        **({"branches": {"episodes": branches}} if branches else {}),
        **facts,
    }


def skipped_of(manifest: Manifest) -> tuple[Skipped, ...]:
    """The episodes that a store says it lacks."""
    provenance = manifest.provenance
    return tuple(Skipped(**item) for name in ("skipped", "skipped_in_packing") for item in provenance.get(name, ()))


def listing_digest(listed: Sequence[Listed]) -> str:
    """Hexadecimal hash of everything that the metadata say of the episodes."""
    return hashlib.sha256("\n".join(map(repr, listed)).encode()).hexdigest()


def _episode(item: Listed) -> Episode:
    return Episode(
        id=item.id,
        source=item.source,
        task=item.task,
        instruction=item.instruction,
        fps=item.fps,
        split=item.split,
    )
