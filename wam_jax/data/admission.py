"""What a run needs of its store beyond a valid index: every mismatch that lengths and presence alone can show.

`check_admission` runs before a model is built and before a payload is read. Rules that need no store are those of
`wam_jax.config.validate`; rules of single tensors are those of `wam_jax.data.storage.validate`.
"""

import numpy as np

from wam_jax.config.schema import Config
from wam_jax.data.drawing import contracts, proprio
from wam_jax.data.drawing.draw_law import DrawLaw
from wam_jax.data.storage.index import ABSENT, Index
from wam_jax.data.storage.manifest import Manifest
from wam_jax.errors import InputError

_SHOWN = 3
_RANDOM = -1


def check_admission(config: Config, manifest: Manifest, index: Index, law: DrawLaw, *, microbatch: int) -> None:
    """Checks the episodes that `law` draws from.

    Args:
        config: the run's.
        manifest: the store's.
        index: the store's.
        law: of the draws of one phase.
        microbatch: samples of a row in that phase.
    Raises:
        InputError: naming the field, the value and the episodes at fault.
    """
    _check_sizes(config, manifest)
    _check_negative_text(index, law)
    _check_condition_latents(config, index, law)
    if config.policy.proprio_context_mode != "none":
        _check_proprio(config, index, law)
    if config.data.batching.mode == "strict" and microbatch > 1:
        _check_rectangular(config, index, law)


def _check_sizes(config: Config, manifest: Manifest) -> None:
    backbone, dims = config.backbone, manifest.dims
    _, patch_height, patch_width = backbone.patch_size
    if backbone.latent_channels != dims.channel:
        raise InputError(
            "backbone.latent_channels", backbone.latent_channels, f"the store's latents have {dims.channel}"
        )
    if dims.height % patch_height or dims.width % patch_width:
        remedy = f"must divide the store's latents of {dims.height} x {dims.width}"
        raise InputError("backbone.patch_size", backbone.patch_size, remedy)
    if dims.text_dim not in (None, backbone.text_dim):
        raise InputError("backbone.text_dim", backbone.text_dim, f"the store's text vectors have {dims.text_dim}")


def _check_negative_text(index: Index, law: DrawLaw) -> None:
    text, negative = (_extents(index, law, name) for name in ("text_context", "negative_text_context"))
    wrong = (negative != ABSENT) & (negative != text)
    _refuse(index, law, "negative_text_context", negative, wrong, "must have as many tokens as text_context")


def _check_condition_latents(config: Config, index: Index, law: DrawLaw) -> None:
    if contracts.needs_condition_latents(config.policy):
        missing = (_extents(index, law, "condition_latents") == ABSENT) & ~law.row_conditional
        _refuse(index, law, "condition_latents", None, missing, "is missing, and the policy needs it")


def _check_proprio(config: Config, index: Index, law: DrawLaw) -> None:
    by_frame = proprio.has_frame_states(index)[law.space.episodes]
    chunks = _extents(index, law, proprio.CHUNK_FIELD)
    names = [proprio.FRAME_FIELD, proprio.STATE_FIELD]
    why = f"policy.proprio_context_mode = {config.policy.proprio_context_mode!r}"
    if law.sequence.contract.frame_states:
        why, missing = f"policy.sequence_contract = {law.sequence.contract.name!r}", ~by_frame
    else:
        names, missing = [*names, proprio.CHUNK_FIELD], ~by_frame & (chunks == ABSENT)
    _refuse(index, law, "proprioception", None, missing, f"{why} needs one of {', '.join(names)}")
    construction = config.data.sample_construction
    whole = construction.mode == "full_segment" and not construction.randomize_geometry
    cut = law.row_conditional & law.sequence.observes_history
    wanted = proprio.num_chunks(law.space.frames, np.minimum(construction.chunk_size, law.space.frames))
    remedy = "states per chunk need full segments, fixed geometry and one state a chunk; store states per frame"
    _refuse(index, law, proprio.CHUNK_FIELD, chunks, ~by_frame & ((chunks != wanted) | cut | (not whole)), remedy)


def _check_rectangular(config: Config, index: Index, law: DrawLaw) -> None:
    space, everywhere = law.space, np.ones(len(law.space.episodes), bool)
    shortest, longest = law.shortest(), law.longest()
    _equal(index, law, "latent frames", np.where(shortest == longest, longest, _RANDOM), everywhere)
    _equal(index, law, "prefix frames", law.prefix_frames(), everywhere)
    _equal(index, law, "text tokens", law.text_tokens[space.episodes], everywhere)
    if contracts.wants_condition_latents(config.policy):
        present = _extents(index, law, "condition_latents") != ABSENT
        _equal(index, law, "condition latents", np.where(present, "present", "absent"), ~law.row_conditional)


def _equal(index: Index, law: DrawLaw, what: str, values: np.ndarray, rows: np.ndarray) -> None:
    """Refuses values, one a row, that are not all the same known one in the rows that count."""
    kinds, first, counts = np.unique(values[rows], return_index=True, return_counts=True)
    if len(kinds) == 0 or (len(kinds) == 1 and kinds[0] != _RANDOM):
        return
    common = np.argsort(-counts, kind="stable")[:_SHOWN]
    shown = [
        f"{_row_name(index, law, np.flatnonzero(rows)[first[i]])}: {'random' if kinds[i] == _RANDOM else kinds[i]}"
        for i in common
    ]
    found = ", ".join(shown) + (", ..." if len(kinds) > _SHOWN else "")
    remedy = f"needs equal {what} in all samples, found {found}; cut equal segments or use a microbatch of 1"
    raise InputError("data.batching.mode", "strict", remedy)


def _row_name(index: Index, law: DrawLaw, row: int) -> str:
    episode = index.ids[law.space.episodes[row]]
    return f"{episode} on {law.routes[law.row_route[row]].name}" if len(law.routes) > 1 else episode


def _extents(index: Index, law: DrawLaw, name: str) -> np.ndarray:
    return index.extents[name][law.space.episodes]


def _refuse(index: Index, law: DrawLaw, field: str, extents: np.ndarray | None, wrong: np.ndarray, remedy: str) -> None:
    rows = np.flatnonzero(wrong)
    if rows.size:
        count = len(np.unique(law.space.episodes[rows]))
        episode, more = law.space.episodes[rows[0]], f" ({count} such episodes)" if count > 1 else ""
        shown = None if extents is None else int(extents[rows[0]])
        raise InputError(f"sample {index.ids[episode]}: {field}", shown, remedy + more)
