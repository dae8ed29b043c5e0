"""What a sample costs in a row: its tokens, and the token slots that it claims, in self-attention.

Both copies of both streams count. Text and proprioception keys, the padding of slots, a row's tail and the decoder's
work are no part of it.
"""

import numpy as np

from wam_jax.data.drawing.draws import DrawTable
from wam_jax.sequence.layout import RowConstants
from wam_jax.sequence.tiling import round_up


def buffer_frames[T: (int, np.ndarray)](frames: T, prefix: T, constants: RowConstants) -> tuple[T, T]:
    """Frames of the video and of the action buffer that a packed sample claims, up to where the next one may begin."""
    alignment = constants.alignment
    return round_up(2 * (frames + prefix), alignment.video_frames), round_up(2 * frames, alignment.action_frames)


def claimed_slots[T: (int, np.ndarray)](frames: T, prefix: T, constants: RowConstants) -> T:
    """Token slots that a packed sample claims."""
    video, action = buffer_frames(frames, prefix, constants)
    return video * constants.video_tokens_per_frame + action * constants.actions_per_frame


def sample_tokens(draws: DrawTable, constants: RowConstants) -> np.ndarray:
    """Real tokens of each draw: int64 in the draws' shape, 0 for empty slots."""
    video = (draws.num_frames + draws.prefix_frames) * constants.video_tokens_per_frame
    return np.where(draws.present, 2 * (video + draws.num_frames * constants.actions_per_frame), 0)


def sample_slots(draws: DrawTable, constants: RowConstants) -> np.ndarray:
    """Token slots that each draw claims when packed: its tokens, and more only where samples are aligned to tiles."""
    return np.where(draws.present, claimed_slots(draws.num_frames, draws.prefix_frames, constants), 0)
