"""One sample with everything that decides its loss: tensors, rules and the random numbers, all given explicitly.

Shapes: C channels, F dataset frames, Fv = F + prefix frames, A actions per frame, D action dimensions, S states.
"""

from dataclasses import dataclass, field

import numpy as np

from tests.restatement.flow import Schedule

JOINT, FDM, IDM = OBJECTIVES = ("joint", "action_conditioned_video", "video_conditioned_action")

# Programs whose two clocks may be coupled, and the objectives that a program's samples may have.
CLOCKED_PROGRAMS = {"joint", "video_noisy_to_action", "action_noisy_to_video", "generalist_joint_denoising"}
PROGRAM_OBJECTIVES = {
    "generalist_joint_denoising": OBJECTIVES,
    "forward_dynamics": (FDM,),
    "inverse_dynamics": (IDM,),
}


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The recipe and the metadata of one sample, named as in the metadata where it has a name.

    `legacy_prefix` prepends the first condition frame. A conditional objective ignores it, as it ignores the window,
    the history filter, the origin and the singleton given here.
    """

    program: str
    objective: str = JOINT
    chunk_size: int = 2
    window_size: int | None = 8
    history_stream_visibility: str = "full"
    clock: str = "independent"
    history_frames: int = 1
    frame_shift: int = 0
    loss_frame_start: int | None = None
    loss_frame_end: int | None = None
    latent_loss_frame_start: int | None = None
    latent_loss_frame_end: int | None = None
    action_loss_frame_start: int | None = None
    action_loss_frame_end: int | None = None
    chunk_origin_frame: int | None = None
    target_alignment: str = ""
    singleton_chunk_frame: int | None = None
    legacy_prefix: bool = False
    condition_source: str = "video_latents"
    use_condition_latents: bool = True
    proprio_mode: str = "none"
    mode_token: bool = False
    text_dim: int = 6
    max_text_tokens: int = 4
    video_schedule: Schedule = field(default=Schedule(1000, 5.0))
    action_schedule: Schedule = field(default=Schedule(1000, 1.0))
    action_loss_weight: float = 1.0
    latent_loss_weight: float = 1.0
    latent_objective: bool = True

    @property
    def is_conditional(self) -> bool:
        return self.objective != JOINT

    @property
    def prefix_frames(self) -> int:
        return int(self.legacy_prefix and not self.is_conditional)


@dataclass(frozen=True, kw_only=True)
class Draws:
    """Random numbers of one sample, model frames (prefix first) on the video side.

    Uniforms lie in [0, 1), those of the condition in [0.5, 1). Clocks that share one draw read it from `video_u`.
    """

    video_u: np.ndarray  # [Fv]
    action_u: np.ndarray  # [F]
    video_noise: np.ndarray  # [C, Fv, H, W]
    action_noise: np.ndarray  # [F*A, D]
    noise_condition: bool
    condition_u: np.ndarray  # [Fv]
    condition_noise: np.ndarray  # [C, Fv, H, W]


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Tensors without a batch axis and without padding; None is an absent field."""

    rules: Rules
    draws: Draws
    video_latents: np.ndarray  # [C, F, H, W]
    actions: np.ndarray  # [F*A, D]
    action_mask: np.ndarray | None = None
    state: np.ndarray | None = None  # [S, state_dim], the last row is the anchor
    state_mask: np.ndarray | None = None
    condition_latents: np.ndarray | None = None  # [C, F or >= 1, H, W]
    proprio_context_frames: np.ndarray | None = None  # [F, state_dim]
    proprio_context_frames_mask: np.ndarray | None = None
    proprio_context_state: np.ndarray | None = None  # [chunks, state_dim]
    proprio_context_state_mask: np.ndarray | None = None
    text_context: np.ndarray | None = None  # [L, text_dim]

    @property
    def num_frames(self) -> int:
        return self.video_latents.shape[1]

    @property
    def actions_per_frame(self) -> int:
        return self.actions.shape[0] // self.num_frames


def drawn_geometries(num_frames: int, *, chunk_size: int, window_size: int) -> dict[tuple[int, int, int], float]:
    """All (chunk, window, history) that a sample without metadata may draw, with their probabilities."""
    chunks = range(1, max(1, chunk_size) + 1)
    windows = range(4, window_size + 1) if window_size >= 4 else [max(1, window_size)]
    chances: dict[tuple[int, int, int], float] = {}
    for chunk in chunks:
        multiples = range(1, max(1, num_frames // chunk - 1) + 1)
        for window in windows:
            for multiple in multiples:
                history = max(1, min(multiple * chunk, num_frames - chunk))
                drawn = (min(chunk, num_frames), window, history)
                chance = 1 / (len(chunks) * len(windows) * len(multiples))
                chances[drawn] = chances.get(drawn, 0.0) + chance
    return chances
