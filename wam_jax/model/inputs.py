"""What goes into the network and what comes out of its blocks: rows of frames, already noised and permuted.

Axes: R rows, Nv/Na frames of the video/action buffers of a row, P tokens of a video frame, A action slots of a frame,
C/H/W latent channels, height, width, D action entries, S sample slots of a row, K keys, f the frame-axis features of
RoPE. Token order of the self-attention key space is all video tokens (Nv * P), then all action tokens (Na * A); of the
text key space the text, then the proprio tokens, then one mode token per sample slot, the latter two only where the
model has them. Frames that belong to no sample hold zeros at timestep 0; they read nothing and nobody reads them.
"""

from dataclasses import dataclass

import jax

from wam_jax.sequence.row_tiles import RowRanges, RowTiles


@jax.tree_util.register_dataclass
@dataclass(frozen=True, kw_only=True)
class RowTokens:
    """The tokens of every row, as frames.

    Attributes:
        video_latents: float[R, Nv, C, H, W].
        video_timesteps: float32[R, Nv], in [0, num_timesteps].
        video_proprio: float[R, Nv, state_dim], the state added to a frame's tokens, or None.
        video_proprio_given: bool[R, Nv], which frames are given theirs, where not all are.
        actions: float[R, Na, A, D].
        action_timesteps: float32[R, Na].
        action_proprio: float[R, Na, state_dim] or None.
        text: float[R, K_text, text_dim].
        proprio_keys: float[R, K_proprio, state_dim], states that become tokens among the text, or None.
        objective: int32[R, S], rows of the mode table; only read where the model has mode tokens.
        video_phase: float32[R, Nv, f / 2, 2], cosine and sine of the frame axis.
        action_phase: float32[R, Na, A, f / 2, 2].
        ranges: which tokens each token of the row reads, and which text keys.
        key_valid: bool[R, Nv * P + Na * A], tokens that may be read.
        tiles: lists of the tiles that those ranges touch; empty where nobody listed them.
    """

    video_latents: jax.Array
    video_timesteps: jax.Array
    video_proprio: jax.Array | None
    actions: jax.Array
    action_timesteps: jax.Array
    action_proprio: jax.Array | None
    text: jax.Array
    proprio_keys: jax.Array | None
    objective: jax.Array
    video_phase: jax.Array
    action_phase: jax.Array
    ranges: RowRanges
    key_valid: jax.Array
    tiles: RowTiles
    video_proprio_given: jax.Array | None = None


@jax.tree_util.register_dataclass
@dataclass(frozen=True, kw_only=True)
class RowHidden:
    """What the last block leaves behind, and the modulation that the heads need; all in the compute dtype.

    Attributes:
        video: [R, Nv, P, width].
        action: [R, Na, A, action width].
        video_time: [R, Nv, width], the raw time embedding, which the video head uses.
        action_modulation: [R, Na, 2, action width], shift and scale, which the action head uses.
    """

    video: jax.Array
    action: jax.Array
    video_time: jax.Array
    action_modulation: jax.Array
