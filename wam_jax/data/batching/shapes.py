"""The static sizes of a run's batches, from the configuration and the index alone."""

import numpy as np

from wam_jax.config.recipe import attention_backend, tile_alignment
from wam_jax.config.schema import Config
from wam_jax.data.batching.costs import buffer_frames, claimed_slots
from wam_jax.data.batching.rungs import sized, slotted_frames
from wam_jax.data.drawing.draw_law import DrawLaw
from wam_jax.data.storage.manifest import Manifest
from wam_jax.sequence.contracts import sequence_contract
from wam_jax.sequence.layout import RowConstants
from wam_jax.sequence.ranges import SELF_RANGES, SELF_RANGES_WITH_PREFIX
from wam_jax.sequence.rope import axis_split
from wam_jax.sequence.rung import Rung
from wam_jax.sequence.tiling import Target, Tiling, current_target, round_up


def row_constants(config: Config, manifest: Manifest, target: Target | None = None) -> RowConstants:
    """What all rows of a run share; `target` is where it will run (None: here)."""
    prefix = sequence_contract(config.policy.sequence_contract).prefix_frames
    _, patch_height, patch_width = config.backbone.patch_size
    return RowConstants(
        video_tokens_per_frame=(manifest.dims.height // patch_height) * (manifest.dims.width // patch_width),
        actions_per_frame=manifest.actions_per_frame,
        ranges=SELF_RANGES_WITH_PREFIX if prefix else SELF_RANGES,
        frame_axis=axis_split(config.backbone.head_dim)[0],
        packed=config.data.batching.mode == "packed",
        mode_token=config.policy.generalist_mode_text_token,
        tiling=Tiling(
            num_heads=config.backbone.num_heads,
            head_dim=config.backbone.head_dim,
            dtype=config.backbone.compute_dtype,
            implementation=attention_backend(config),
            target=target or current_target(),
            alignment=tile_alignment(config),
        ),
    )


def top_rung(law: DrawLaw, constants: RowConstants, *, samples: int, multiple: int = 1) -> Rung:
    """The rung that holds any `samples` draws of a law.

    Args:
        law: of the draws.
        constants: what all rows share.
        samples: sample slots of a row.
        multiple: frames of a slot are rounded up to a multiple of this.
    """
    video_slot, action_slot = _slots(law, multiple)
    video_frames, action_frames = slotted_frames(video_slot, action_slot, samples, constants)
    return sized(
        samples=samples,
        video_slot_frames=video_slot,
        action_slot_frames=action_slot,
        video_frames=video_frames,
        action_frames=action_frames,
        text_keys=samples * round_up(_most_text(law), constants.alignment.keys),
        proprio_keys=samples * round_up(_most_proprio(law), constants.alignment.keys),
        alignment=constants.alignment,
    )


def budget_rung(law: DrawLaw, constants: RowConstants, *, max_tokens: int, multiple: int = 1) -> Rung:
    """The rung that holds any pack of draws within a token budget.

    Each stream gets what a pack of nothing but the samples that favour it most would need.
    """
    frames = np.arange(law.shortest().min(), law.longest().max() + 1)[:, None]
    prefix = np.unique(law.prefix_frames())
    cost = claimed_slots(frames, prefix, constants)
    video_frames, action_frames = (
        int((max_tokens * claimed // cost).max()) for claimed in buffer_frames(frames, prefix, constants)
    )
    samples = max_tokens // int(cost.min())
    alignment = constants.alignment
    video_slot, action_slot = _slots(law, multiple)
    return sized(
        samples=samples,
        video_slot_frames=video_slot,
        action_slot_frames=action_slot,
        video_frames=video_frames,
        action_frames=action_frames,
        text_keys=samples * round_up(_most_text(law), alignment.keys),
        proprio_keys=samples * round_up(_most_proprio(law), alignment.keys),
        alignment=alignment,
    )


def _slots(law: DrawLaw, multiple: int) -> tuple[int, int]:
    """Frames of the longest sample, rounded up: of its video and of its actions."""
    frames, video = int(law.longest().max()), int((law.longest() + law.prefix_frames()).max())
    return round_up(video, multiple), round_up(frames, multiple)


def _most_text(law: DrawLaw) -> int:
    return int(law.text_tokens[law.space.episodes].max())


def _most_proprio(law: DrawLaw) -> int:
    smallest_chunk = 1 if law.geometry.randomize else law.geometry.chunk_size
    return law.most_proprio(-(-int(law.longest().max()) // smallest_chunk))
