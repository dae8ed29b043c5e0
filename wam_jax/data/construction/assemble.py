"""From what one episode's encoder and robot log give to the arrays of the sample contract."""

import numpy as np

from wam_jax.data.construction.actions import FillGroup, FillValue, align_actions, anchors
from wam_jax.data.storage.units import Units
from wam_jax.errors import InputError


def assemble_sample(
    *,
    video_latents: np.ndarray,
    actions: np.ndarray,
    states: np.ndarray | None = None,
    condition_latents: np.ndarray | None = None,
    units: Units,
    fill_group: FillGroup = "masked",
    fill_value: FillValue = "zero",
) -> dict[str, np.ndarray]:
    """Aligns a whole episode and names its parts, ready for `wam_jax.data.storage.writer.StoreWriter.add`.

    Args:
        video_latents: `[C, T, H, W]`; kept as float16.
        actions: `[rows, D]` raw actions; row i leads from raw step i to i + 1.
        states: `[R, d]` proprioception at every raw frame, 1 + s (T - 2) < R <= 1 + s (T - 1).
        condition_latents: `[C, T, H, W]`, the code of each latent frame's anchor alone; kept as float16.
        units: A and s.
        fill_group, fill_value: of action group 0 (`wam_jax.data.construction.actions`).
    Returns:
        Field name to array; `state` has its last row repeated to 1 + s (T - 1), which `state_mask` then marks.
    Raises:
        InputError: there are not as many states as the video has raw frames.
    """
    frames, stride = video_latents.shape[1], units.temporal_stride
    aligned, mask = align_actions(
        actions,
        frames=frames,
        actions_per_frame=units.actions_per_frame,
        source_frames=frames,
        fill_group=fill_group,
        fill_value=fill_value,
    )
    arrays = {
        "video_latents": video_latents.astype(np.float16),
        "actions": aligned.astype(np.float32),
        "action_mask": mask,
    }
    if condition_latents is not None:
        arrays["condition_latents"] = condition_latents.astype(np.float16)
    if states is not None:
        missing = 1 + stride * (frames - 1) - len(states)
        if not 0 <= missing < stride:
            remedy = f"one row per raw frame: at most {1 + stride * (frames - 1)} for {frames} latent frames"
            raise InputError("states", len(states), remedy)
        states = states.astype(np.float32)
        arrays["state"] = np.concatenate([states, np.repeat(states[-1:], missing, axis=0)])
        arrays["proprio_context_frames"] = states[anchors(frames, len(states), stride)]
        if missing:
            arrays["state_mask"] = np.ones_like(arrays["state"])
            arrays["state_mask"][len(states) :] = 0
    return arrays
