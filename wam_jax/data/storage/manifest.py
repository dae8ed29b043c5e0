"""The manifest of a store (`store.json`): everything that is said once for all episodes.

It describes the store fully: schema, sizes of the axes that do not grow, geometry of the encoders, container of the
payloads, statistics of the train split, provenance. It is plain JSON. A manifest that was read is valid: unknown
schemas, missing keys and values of a wrong type have been refused by name.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wam_jax.data.jsonio import from_json
from wam_jax.data.storage.units import Units
from wam_jax.errors import InputError

SCHEMA = "wam_jax.store.v1"
PAYLOAD_FORMATS = ("array_record", "safetensors")


@dataclass(frozen=True)
class Dims:
    """Sizes of the axes that do not grow, by their name in the field table; None where no episode has the axis."""

    channel: int
    height: int
    width: int
    action_dim: int
    state_dim: int | None = None
    text_dim: int | None = None


@dataclass(frozen=True)
class EncoderRecord:
    """What turned pixels into latents.

    Attributes:
        name: which encoder (`klt-p16c48`, `wan2.2-vae`).
        kind: what it is (`stand-in`, `vae`).
        spatial_stride, temporal_stride: pixels per latent cell side, raw frames per latent frame after the first.
        channels: latent channels C.
        normaliser: how latents were scaled, in words; readers never scale again.
        sha256: of the encoder's file, hexadecimal, or None.
    """

    name: str
    kind: str
    spatial_stride: int
    temporal_stride: int
    channels: int
    normaliser: str
    sha256: str | None = None


@dataclass(frozen=True)
class TextRecord:
    """What turned prompts into vectors: width `dim`, zero-padded to `tokens` rows (`wam_jax.data.encoders.text`)."""

    name: str
    dim: int
    tokens: int
    fingerprint: str


@dataclass(frozen=True)
class ShardRecord:
    """One payload file: its name in the store, its size in bytes, the number of its records."""

    name: str
    num_bytes: int
    num_records: int


@dataclass(frozen=True)
class PayloadRecord:
    """The container of the payloads.

    Attributes:
        format: one of `PAYLOAD_FORMATS`.
        compression: `none` or `zstd:LEVEL`.
        shards: the ArrayRecord files; empty for a file per episode.
    """

    format: str
    compression: str = "none"
    shards: tuple[ShardRecord, ...] = ()


@dataclass(frozen=True)
class FieldStatistics:
    """Per-dimension statistics of one field over the unmasked entries of the train split; `count` is per dimension."""

    count: tuple[int, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    min: tuple[float, ...]
    max: tuple[float, ...]


@dataclass(frozen=True)
class Manifest:
    """All of `store.json`; attributes are its keys.

    Attributes:
        actions_per_frame: A, action slots per latent frame; 0 where the episodes hold empty actions.
        statistics: by field name (`actions`, `state`).
        provenance: free JSON: how the store was made, versions, seeds, licence.
        index_fingerprint: of the index's content (`wam_jax.data.storage.index.fingerprint_of`).
    """

    schema: str
    num_episodes: int
    actions_per_frame: int
    dims: Dims
    encoder: EncoderRecord
    text: TextRecord | None
    payload: PayloadRecord
    index_fingerprint: str
    statistics: Mapping[str, FieldStatistics] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value, least in (
            ("num_episodes", self.num_episodes, 1),
            ("actions_per_frame", self.actions_per_frame, 0),
        ):
            if value < least:
                raise InputError(f"store.json: {name}", value, f"at least {least}")
        if self.payload.format not in PAYLOAD_FORMATS:
            raise InputError("store.json: payload.format", self.payload.format, f"one of {PAYLOAD_FORMATS}")
        if self.encoder.channels != self.dims.channel:
            raise InputError(
                "store.json: encoder.channels", self.encoder.channels, f"dims.channel is {self.dims.channel}"
            )

    @property
    def units(self) -> Units:
        """How frames convert to slots and observations."""
        return Units(actions_per_frame=self.actions_per_frame, temporal_stride=self.encoder.temporal_stride)

    @property
    def fingerprint(self) -> str:
        """Hexadecimal hash of what the data is: content, sizes, encoders. The container, statistics and provenance do
        not enter, so the same episodes in another container have the same fingerprint."""
        essentials = {
            "schema": self.schema,
            "actions_per_frame": self.actions_per_frame,
            "dims": dataclasses.asdict(self.dims),
            "encoder": dataclasses.asdict(self.encoder),
            "text": dataclasses.asdict(self.text) if self.text else None,
            "index": self.index_fingerprint,
        }
        return hashlib.sha256(json.dumps(essentials, sort_keys=True).encode()).hexdigest()

    def to_json(self) -> str:
        """The text of `store.json`."""
        return json.dumps(dataclasses.asdict(self), indent=1) + "\n"


def parse_manifest(text: str, *, source: str) -> Manifest:
    """Reads the text of a `store.json`.

    Args:
        text: the file's content.
        source: the file's path, for messages.
    Raises:
        InputError: not JSON, another schema than `SCHEMA`, or a key that is missing or of a wrong type.
    """
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise InputError(source, str(error), "a store.json that is complete JSON; write the store again") from None
    schema = raw.get("schema") if isinstance(raw, dict) else None
    if schema != SCHEMA:
        raise InputError(f"{source}: schema", schema, f"this version reads {SCHEMA!r}; upgrade wam_jax or rewrite it")
    return from_json(Manifest, raw, where=source)
