"""What a sample must be, checked once and in one place.

`check_index` needs the index alone: it finds every disagreement of lengths in a store before a run is built, without
reading a payload. `validate_sample` checks arrays: names, axes, sizes, dtypes, masks, finite values. Both are told
everything by the field table and the manifest.
"""

from collections.abc import Mapping

import numpy as np

from wam_jax.data.storage.fields import BY_NAME, FIELDS, Field
from wam_jax.data.storage.index import ABSENT, Index
from wam_jax.data.storage.manifest import Manifest
from wam_jax.errors import InputError

MIN_FRAMES = 2
_ACCEPTED = ("float16", "bfloat16", "float32")


def check_index(index: Index, manifest: Manifest) -> None:
    """Checks the lengths of all episodes against the field table.

    Raises:
        InputError: naming the first episode that lacks a required field, has fewer than `MIN_FRAMES` latent frames,
            or has a field whose length is not what its number of latent frames demands.
    """
    frames = index.extents["video_latents"]
    _refuse(index, "video_latents", frames, frames == ABSENT, "is missing and required")
    _refuse(index, "video_latents", frames, frames < MIN_FRAMES, f"latent frames; at least {MIN_FRAMES} are needed")
    for field in FIELDS:
        extent, wanted = index.extents[field.name], manifest.units.extent(field.unit, frames)
        if not field.optional:
            _refuse(index, field.name, extent, extent == ABSENT, "is missing and required")
        if field.mask_of is not None:
            wanted = index.extents[field.mask_of]
        if wanted is not None:
            _refuse(index, field.name, extent, (extent != ABSENT) & (extent != wanted), _length_rule(field, manifest))


def validate_sample(arrays: Mapping[str, np.ndarray], manifest: Manifest, *, sample_id: str) -> None:
    """Checks one sample, whole or cropped to a range of frames, against the field table and the manifest.

    Args:
        arrays: field name to array; axes as in the field table.
        sample_id: for messages.
    Raises:
        InputError: with field `sample <id>: <field>`; a required field is missing, a field is unknown, an axis has the
            wrong size, a dtype is not a float, a mask has another shape than its field or values other than 0 and 1, or
            a value is NaN or infinite.
    """
    for field in FIELDS:
        if not field.optional and field.name not in arrays:
            raise InputError(f"sample {sample_id}: {field.name}", None, "is missing and required")
    for name, array in arrays.items():
        where = f"sample {sample_id}: {name}"
        if name not in BY_NAME:
            raise InputError(where, array.shape, f"is no field; known are {', '.join(BY_NAME)}")
        _check_axes(BY_NAME[name], array, manifest, where)
    frames = arrays["video_latents"].shape[BY_NAME["video_latents"].time_axis]
    if frames < MIN_FRAMES:
        raise InputError(
            f"sample {sample_id}: video_latents", frames, f"at least {MIN_FRAMES} latent frames are needed"
        )
    for name, array in arrays.items():
        field, where = BY_NAME[name], f"sample {sample_id}: {name}"
        _check_length(field, array, frames, manifest, where)
        if field.mask_of is not None:
            _check_mask(array, arrays.get(field.mask_of), field.mask_of, where)
        _check_finite(array, where)


def _check_axes(field: Field, array: np.ndarray, manifest: Manifest, where: str) -> None:
    if array.ndim != len(field.axes):
        raise InputError(where, array.shape, f"axes [{', '.join(field.axes)}]")
    if array.dtype.name not in _ACCEPTED:
        raise InputError(where, array.dtype.name, f"one of {', '.join(_ACCEPTED)}")
    for axis, (name, size) in enumerate(zip(field.axes, array.shape, strict=True)):
        wanted = size if axis == field.time_axis else getattr(manifest.dims, name)
        if size != wanted:
            raise InputError(where, array.shape, f"axis {name} is {wanted} in this store")


def _check_length(field: Field, array: np.ndarray, frames: int, manifest: Manifest, where: str) -> None:
    wanted = manifest.units.extent(field.unit, frames)
    extent = array.shape[field.time_axis]
    if wanted is not None and extent != wanted:
        raise InputError(where, extent, f"{wanted} rows for {frames} latent frames: {_length_rule(field, manifest)}")


def _check_mask(mask: np.ndarray, values: np.ndarray | None, mask_of: str, where: str) -> None:
    if values is None:
        raise InputError(where, mask.shape, f"a mask of {mask_of}, which is absent; remove it")
    if mask.shape != values.shape:
        raise InputError(where, mask.shape, f"the shape of {mask_of}, {values.shape}")
    if not np.all((mask == 0) | (mask == 1)):
        raise InputError(where, float(mask[(mask != 0) & (mask != 1)][0]), "only 0 and 1")


def _check_finite(array: np.ndarray, where: str) -> None:
    finite = np.isfinite(array)
    if not finite.all():
        at = tuple(int(i) for i in np.argwhere(~finite)[0])
        raise InputError(where, float(array[at]), f"not finite at {list(at)}; clean the data before storing it")


def _length_rule(field: Field, manifest: Manifest) -> str:
    match field.unit:
        case "slot":
            return f"must be {manifest.actions_per_frame} x latent frames"
        case "observation":
            return f"must be 1 + {manifest.encoder.temporal_stride} x (latent frames - 1)"
        case "frame":
            return "must equal the latent frames"
        case _:
            return f"must equal the length of {field.mask_of}"


def _refuse(index: Index, field: str, extents: np.ndarray, wrong: np.ndarray, remedy: str) -> None:
    rows = np.flatnonzero(wrong)
    if rows.size:
        first, more = int(rows[0]), f" ({rows.size} such episodes)" if rows.size > 1 else ""
        shown = None if extents[first] == ABSENT else int(extents[first])
        raise InputError(f"sample {index.ids[first]}: {field}", shown, remedy + more)
