"""What the host hands to the device: one `RowBatch` a physical call, all shapes fixed by its `Rung`.

A row is what one device works on: `S` sample slots, whose tokens share one row buffer. Every array leads with the row
axis. Samples are padded along their growing axes; `RowLayout` says which row-buffer frame each real frame of a sample
goes to, so that padding never reaches the network.

Axes: R rows, S sample slots of a row, T video frames of a slot (prefix first where there is one), F action frames of a
slot, A action slots of a frame, D action entries, C/H/W latent channels, height, width, Nv/Na frames of the video and
action row buffers, P tokens of a video frame, K keys. Copies are ordered noisy (0), clean (1). An index of -1 means
"nothing there". Arrays are NumPy on the host and JAX arrays inside the compiled step.
"""

from dataclasses import dataclass

import jax

from wam_jax.sequence.layout import Array, RowLayout
from wam_jax.sequence.row_tiles import RowTiles
from wam_jax.sequence.rung import Rung

__all__ = ["Array", "RowBatch", "RowLayout", "RowTiles", "Rung", "SampleSlots"]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SampleSlots:
    """The samples of a row, each padded to its slot.

    Attributes:
        valid: bool[R, S], whether the slot holds a sample.
        draw: uint32[R, S, 3], (phase, epoch, position in epoch) of the draw: what its noise is a function of.
        objective: int32[R, S], `wam_jax.sequence.objectives.Objective`.
        prefix_frames: int32[R, S], clean frames in front of the dataset's own (0 or 1).
        num_frames: int32[R, S], dataset frames of the sample (prefix not counted); 0 for an empty slot.
        video_latents: float[R, S, T, C, H, W], targets; a prefix frame holds its clean latent.
        clean_latents: the same shape, what the clean copy holds; None where it is `video_latents` for every sample.
        video_loss_mask: bool[R, S, T], frames that carry video loss for the joint objective.
        actions: float32[R, S, F, A, D].
        action_mask: float32[R, S, F, A, D], the sample's action mask times its action loss range.
        video_proprio: float32[R, S, T, state_dim] or None, the state each video frame is given (additive mode).
        action_proprio: float32[R, S, F, state_dim] or None, likewise for the frames of the action stream.
    """

    valid: Array
    draw: Array
    objective: Array
    prefix_frames: Array
    num_frames: Array
    video_latents: Array
    clean_latents: Array | None
    video_loss_mask: Array
    actions: Array
    action_mask: Array
    video_proprio: Array | None
    action_proprio: Array | None


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class RowBatch:
    """One physical microbatch of every row that this process owns.

    Attributes:
        samples: the samples, slot by slot.
        layout: their frames in the row buffers.
        tiles: the tiles that the attention of those frames visits.
        text: float32[R, text_keys, text_dim], text tokens at their keys (zeroed where text is removed or dropped).
        proprio_keys: float32[R, proprio_keys, state_dim] or None.
        seed: uint32[], the run's seed.
    """

    samples: SampleSlots
    layout: RowLayout
    tiles: RowTiles
    text: Array
    proprio_keys: Array | None
    seed: Array
