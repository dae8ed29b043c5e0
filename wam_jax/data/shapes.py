"""The static sizes of a run's batches, from the configuration and the index alone."""

from wam_jax.config.schema import Config
from wam_jax.data.draw_law import DrawLaw
from wam_jax.data.manifest import Manifest
from wam_jax.sequence.contracts import sequence_contract
from wam_jax.sequence.layout import RowConstants
from wam_jax.sequence.ranges import SELF_RANGES, SELF_RANGES_WITH_PREFIX
from wam_jax.sequence.rope import axis_split
from wam_jax.sequence.rung import Rung


def row_constants(config: Config, manifest: Manifest) -> RowConstants:
    """What all rows of a run share."""
    prefix = sequence_contract(config.policy.sequence_contract).prefix_frames
    _, patch_height, patch_width = config.backbone.patch_size
    return RowConstants(
        video_tokens_per_frame=(manifest.dims.height // patch_height) * (manifest.dims.width // patch_width),
        actions_per_frame=manifest.actions_per_frame,
        ranges=SELF_RANGES_WITH_PREFIX if prefix else SELF_RANGES,
        frame_axis=axis_split(config.backbone.head_dim)[0],
        packed=config.data.batching.mode == "packed",
    )


def top_rung(law: DrawLaw, *, samples: int, multiple: int = 1) -> Rung:
    """The rung that holds any `samples` draws of a law.

    Args:
        law: of the draws.
        samples: sample slots of a row.
        multiple: frames of a slot are rounded up to a multiple of this.
    """
    frames, video_frames = int(law.longest().max()), int((law.longest() + law.prefix_frames()).max())
    action_slot, video_slot = (-(-count // multiple) * multiple for count in (frames, video_frames))
    smallest_chunk = 1 if law.geometry.randomize else law.geometry.chunk_size
    return Rung(
        samples=samples,
        video_slot_frames=video_slot,
        action_slot_frames=action_slot,
        video_frames=2 * samples * video_slot,
        action_frames=2 * samples * action_slot,
        text_keys=samples * int(law.text_tokens[law.space.episodes].max()),
        proprio_keys=samples * law.most_proprio(-(-frames // smallest_chunk)),
        # One run a frame and copy at most, behind run 0, which reads nothing.
        runs=1 + samples * 2 * (frames + video_frames),
    )
