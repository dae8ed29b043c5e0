"""What is fitted to a source before its episodes are converted: the stand-in codec, and scalings.

Only episodes that train are looked at, and those that cannot be read are left out: the report tells of them later.
"""

import dataclasses
import json
from collections.abc import Iterator, Sequence

import numpy as np

from wam_jax.data.conversion.content import Listed, Source
from wam_jax.data.conversion.options import Options
from wam_jax.data.encoders.codec_fit import fit_codec
from wam_jax.data.storage.normalisation import FIELDS, Normalisation, fit_normalisation, read_limits
from wam_jax.errors import InputError

MAX_EPISODES = 64
"""Of which the codec sees blocks; more are thinned evenly."""


def fit_stand_in(source: Source, listed: Sequence[Listed], options: Options) -> bytes:
    """Content of a codec's file, fitted to the source's video; raises InputError where no episode can be read."""
    train = training(listed)
    counts = {item.id: _count(source, item) for item in train[:: -(-len(train) // MAX_EPISODES)]}
    usable = [item for item in train if counts.get(item.id)]
    if not usable:
        raise InputError(
            "--encoder", options.encoder, f"none of {len(train)} training episodes has video that can be read"
        )
    print(f"fitting a codec of {options.channels} channels to {len(usable)} episodes", flush=True)
    lengths = [counts[item.id] for item in usable]
    patch, channels = options.patch, options.channels
    return fit_codec(lengths, lambda i: _frames(source, usable[i]), patch=patch, channels=channels).to_bytes()


def fit_scalings(source: Source, listed: Sequence[Listed], options: Options) -> bytes:
    """JSON of field to `Normalisation`; raises InputError."""
    modes = {"actions": options.normalise_actions, "state": options.normalise_state}
    found = {}
    for position, field in enumerate(FIELDS):
        mode = modes[field]
        if mode == "none":
            found[field] = Normalisation("none")
            continue
        limits = read_limits(options.limits, field) if mode == "joint_limits" and options.limits else None
        values = _control(source, training(listed), position)
        found[field] = fit_normalisation(mode, values, limits=limits, clip=options.clip)
    return json.dumps({field: dataclasses.asdict(item) for field, item in found.items()}, indent=1).encode()


def training(listed: Sequence[Listed]) -> list[Listed]:
    """Those that train; all of them where none does."""
    return [item for item in listed if item.split == "train"] or list(listed)


def _control(source: Source, listed: Sequence[Listed], position: int) -> Iterator[np.ndarray]:
    for item in listed:
        try:
            values = source.control(item)[position]
        except InputError:
            continue
        if values is not None and np.isfinite(values).all():
            yield values


def _count(source: Source, item: Listed) -> int:
    """Raw frames of an episode; 0 where it cannot be read."""
    try:
        return len(_frames(source, item))
    except InputError:
        return 0


def _frames(source: Source, item: Listed) -> np.ndarray:
    frames = source.content(item).frames
    assert frames is not None
    return frames
