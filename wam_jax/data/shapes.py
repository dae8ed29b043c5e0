"""The static sizes of a run's batches, from the configuration and the index alone."""

from wam_jax.config.schema import Config
from wam_jax.data.batching.rungs import sized
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
    video_slot, action_slot = _slots(law, multiple)
    return sized(
        samples=samples,
        video_slot_frames=video_slot,
        action_slot_frames=action_slot,
        video_frames=2 * samples * video_slot,
        action_frames=2 * samples * action_slot,
        text_keys=samples * _most_text(law),
        proprio_keys=samples * _most_proprio(law),
    )


def budget_rung(law: DrawLaw, constants: RowConstants, *, max_tokens: int, multiple: int = 1) -> Rung:
    """The rung that holds any pack of draws within a token budget.

    A sample has at least as many action frames as video frames less its prefix, which bounds both buffers.
    """
    p, a = constants.video_tokens_per_frame, constants.actions_per_frame
    frames, prefix = law.shortest(), law.prefix_frames()
    samples = max_tokens // int((2 * ((frames + prefix) * p + frames * a)).min())
    most_prefixed = float((frames / (frames + prefix)).min())
    video_slot, action_slot = _slots(law, multiple)
    return sized(
        samples=samples,
        video_slot_frames=video_slot,
        action_slot_frames=action_slot,
        video_frames=int(max_tokens / (p + a * most_prefixed)),
        action_frames=max_tokens // (p + a),
        text_keys=samples * _most_text(law),
        proprio_keys=samples * _most_proprio(law),
    )


def _slots(law: DrawLaw, multiple: int) -> tuple[int, int]:
    """Frames of the longest sample, rounded up: of its video and of its actions."""
    frames, video = int(law.longest().max()), int((law.longest() + law.prefix_frames()).max())
    return -(-video // multiple) * multiple, -(-frames // multiple) * multiple


def _most_text(law: DrawLaw) -> int:
    return int(law.text_tokens[law.space.episodes].max())


def _most_proprio(law: DrawLaw) -> int:
    smallest_chunk = 1 if law.geometry.randomize else law.geometry.chunk_size
    return law.most_proprio(-(-int(law.longest().max()) // smallest_chunk))
