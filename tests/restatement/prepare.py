"""From one sample to what the model reads and the loss compares: copies, clocks, targets, masks, text, proprio.

The objective decides which stream is denoised; the clean stream of a conditional sample stands in its noisy slot.
"""

from dataclasses import dataclass

import numpy as np

from tests.restatement import flow
from tests.restatement.sample import FDM, IDM, OBJECTIVES, Rules, Sample
from tests.restatement.visibility import Geometry

CONDITIONAL_WINDOW = 3


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Model inputs and loss targets of one sample; copies are noisy first, then clean, along frames or slots."""

    geometry: Geometry
    frame_shift: int
    video: np.ndarray  # [C, 2*Fv, H, W]
    video_timesteps: np.ndarray  # [2*Fv]
    actions: np.ndarray  # [2*F*A, D]
    action_timesteps: np.ndarray  # [2*F]
    text: np.ndarray  # [L, text_dim]
    text_proprio: np.ndarray  # [tokens, state_dim], states still to be encoded
    mode: int | None  # row of the mode table
    video_states: np.ndarray | None  # [Fv, state_dim]
    action_states: np.ndarray | None  # [F, state_dim]
    video_clean: np.ndarray  # [C, Fv, H, W]
    video_target: np.ndarray  # [C, Fv, H, W]
    frame_mask: np.ndarray  # [Fv]
    action_clean: np.ndarray  # [F*A, D]
    action_target: np.ndarray  # [F*A, D]
    action_mask: np.ndarray  # [F*A, D]
    video_schedule: flow.Schedule
    action_schedule: flow.Schedule


def chunk_origin(rules: Rules) -> int:
    if rules.is_conditional:
        return 1
    if rules.chunk_origin_frame is not None:
        return rules.chunk_origin_frame
    return (rules.loss_frame_start or 0) if rules.target_alignment == "next_after_context" else 0


def geometry_of(sample: Sample, *, tokens_per_frame: int) -> Geometry:
    """The geometry that the sample's rules and objective resolve to."""
    rules, F = sample.rules, sample.num_frames
    window = rules.window_size or 2 * (F + rules.prefix_frames)
    mask = sample.action_mask
    return Geometry(
        num_frames=F,
        video_tokens_per_frame=tokens_per_frame,
        actions_per_frame=sample.actions_per_frame,
        chunk_size=min(rules.chunk_size, F),
        window_size=CONDITIONAL_WINDOW if rules.is_conditional else window,
        program=rules.program,
        history="video_only" if rules.is_conditional else rules.history_stream_visibility,
        prefix_frames=rules.prefix_frames,
        chunk_origin=chunk_origin(rules),
        singleton_frame=0 if rules.is_conditional else rules.singleton_chunk_frame,
        boundary_only=rules.is_conditional,
        action_valid=None if mask is None else (mask > 0).any(axis=-1),
    )


def _range_mask(num_frames: int, *pairs: tuple[int | None, int | None]) -> np.ndarray | None:
    """`[F]` ones inside the first range that has an end of its own, None without any; half-open, dataset frames."""
    for start, end in pairs:
        if start is not None or end is not None:
            frames = np.arange(num_frames)
            return ((frames >= (start or 0)) & (frames < (num_frames if end is None else end))).astype(float)
    return None


def history_frames(rules: Rules) -> int:
    generic = rules.loss_frame_start is not None or rules.loss_frame_end is not None
    return (rules.loss_frame_start or 0) if generic else rules.history_frames


def frame_mask(sample: Sample) -> np.ndarray:
    """`[Fv]`: frames whose video is supervised; never the prefix."""
    rules, F = sample.rules, sample.num_frames
    mask = _range_mask(
        F,
        (rules.latent_loss_frame_start, rules.latent_loss_frame_end),
        (rules.loss_frame_start, rules.loss_frame_end),
    )
    if mask is None:
        skipped = 0 if rules.prefix_frames else history_frames(rules)
        mask = (np.arange(F) >= skipped).astype(float)
    return np.concatenate([np.zeros(rules.prefix_frames), mask]) * (rules.objective != IDM)


def effective_action_mask(sample: Sample) -> np.ndarray:
    """`[F*A, D]`: the action mask inside the action range, which by default includes the history frames."""
    rules = sample.rules
    mask = np.ones_like(sample.actions) if sample.action_mask is None else sample.action_mask
    frames = _range_mask(
        sample.num_frames,
        (rules.action_loss_frame_start, rules.action_loss_frame_end),
        (rules.loss_frame_start, rules.loss_frame_end),
    )
    return mask if frames is None else mask * np.repeat(frames, sample.actions_per_frame)[:, None]


def _required(value: np.ndarray | None, name: str) -> np.ndarray:
    if value is None:
        raise ValueError(f"{name} is required by the sample's rules")
    return value


def _masked(value: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
    return value if mask is None else value * mask


def clean_copy(sample: Sample) -> np.ndarray:
    """`[C, Fv, H, W]`: what the clean video copy holds before any augmentation."""
    rules, video, condition = sample.rules, sample.video_latents, sample.condition_latents
    if rules.is_conditional:
        return video
    if rules.prefix_frames:
        return np.concatenate([_required(condition, "condition_latents")[:, :1], video], axis=1)
    if rules.condition_source == "single_frame_condition_latent":
        h = history_frames(rules)
        return np.concatenate([_required(condition, "condition_latents")[:, :h], video[:, h:]], axis=1)
    return condition if condition is not None and rules.use_condition_latents else video


def _condition_video(sample: Sample) -> tuple[np.ndarray, np.ndarray]:
    """The clean copy and its timesteps `[Fv]`, noised where the sample's one decision says so, the prefix excepted."""
    rules, draws, clean = sample.rules, sample.draws, clean_copy(sample)
    if rules.is_conditional or not draws.noise_condition:
        return clean, np.zeros(clean.shape[1])
    schedule = rules.video_schedule
    timesteps = schedule.timesteps[schedule.ids(draws.condition_u)]
    timesteps[: rules.prefix_frames] = 0
    noisy = flow.noised(clean, draws.condition_noise, schedule.sigma_at(timesteps)[:, None, None])
    noisy[:, : rules.prefix_frames] = clean[:, : rules.prefix_frames]
    return noisy, timesteps


def _noisy_video(sample: Sample, clean: np.ndarray, timesteps: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Contents, timesteps and targets of the noisy copy; prefix frames, and all frames for IDM, stay clean."""
    rules, noise = sample.rules, sample.draws.video_noise
    is_clean = np.arange(clean.shape[1]) < (clean.shape[1] if rules.objective == IDM else rules.prefix_frames)
    sigma = rules.video_schedule.sigma_at(timesteps)[:, None, None]
    contents = np.where(is_clean[:, None, None], clean, flow.noised(clean, noise, sigma))
    target = np.where(is_clean[:, None, None], 0.0, noise - clean)
    return contents, np.where(is_clean, 0.0, timesteps), target


def _noisy_actions(sample: Sample, ticks: flow.Ticks) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Contents, timesteps and targets of the noisy action copy; FDM puts the clean, masked actions there."""
    actions, noise = sample.actions, sample.draws.action_noise
    if sample.rules.objective == FDM:
        return _masked(actions, sample.action_mask), np.zeros_like(ticks.action), np.zeros_like(actions)
    mask = effective_action_mask(sample)
    sigma = np.repeat(ticks.action_schedule.sigma_at(ticks.action), sample.actions_per_frame)[:, None]
    return flow.noised(actions, noise, sigma) * mask, ticks.action, (noise - actions) * mask


def task_text(sample: Sample) -> np.ndarray:
    """`[L, text_dim]`: the text, zeros where it is missing or taken away from a conditional sample."""
    rules, text = sample.rules, sample.text_context
    if text is None:
        return np.zeros((rules.max_text_tokens, rules.text_dim))
    return np.zeros_like(text) if rules.is_conditional else text


def anchor_state(sample: Sample) -> np.ndarray:
    return _masked(_required(sample.state, "state"), sample.state_mask)[-1:]


def text_states(sample: Sample) -> np.ndarray:
    """`[tokens, state_dim]`: states that become text tokens, one per chunk or the anchor state alone."""
    if sample.rules.proprio_mode != "text_context_token":
        return np.zeros((0, 1))
    if sample.proprio_context_state is not None:
        return _masked(sample.proprio_context_state, sample.proprio_context_state_mask)
    return anchor_state(sample)


def frame_states(sample: Sample, g: Geometry) -> np.ndarray | None:
    """`[F, state_dim]`: the state that each target frame adds to its tokens, the last one before its chunk."""
    if sample.rules.proprio_mode != "per_chunk_additive":
        return None
    p, o, cs, frames = g.prefix_frames, g.chunk_origin, g.chunk_size, np.arange(g.num_frames)
    by_chunk = sample.proprio_context_frames is None
    if by_chunk:
        values = _masked(_required(sample.proprio_context_state, "proprio"), sample.proprio_context_state_mask)
    else:
        values = _masked(_required(sample.proprio_context_frames, "proprio"), sample.proprio_context_frames_mask)
    if p:
        values = np.concatenate([anchor_state(sample), values])
    if by_chunk:
        return values[np.maximum(frames - o, 0) // cs + p]
    if p:
        return values[np.clip((frames - o) // cs * cs + o - 1 + p, 0, len(values) - 1)]
    boundary = o + (np.maximum(frames, o) - o) // cs * cs - 1
    return np.where(boundary[:, None] < 0, 0.0, values[np.clip(boundary, 0, len(values) - 1)])


def prepare(sample: Sample, *, patch: tuple[int, int]) -> Inputs:
    """All inputs and targets of one sample; `patch` is the spatial patch (height, width)."""
    rules, draws = sample.rules, sample.draws
    height, width = sample.video_latents.shape[2:]
    g = geometry_of(sample, tokens_per_frame=(height // patch[0]) * (width // patch[1]))
    p = rules.prefix_frames
    clean = np.concatenate([clean_copy(sample)[:, :p], sample.video_latents], axis=1)
    ticks = flow.clock_ticks(rules.clock, draws.video_u, draws.action_u, rules.video_schedule, rules.action_schedule)
    noisy, noisy_t, video_target = _noisy_video(sample, clean, ticks.video)
    condition, condition_t = _condition_video(sample)
    slots, slot_t, action_target = _noisy_actions(sample, ticks)
    states = frame_states(sample, g)
    return Inputs(
        geometry=g,
        frame_shift=rules.frame_shift,
        video=np.concatenate([noisy, condition], axis=1),
        video_timesteps=np.concatenate([noisy_t, condition_t]),
        actions=np.concatenate([slots, sample.actions]),
        action_timesteps=np.concatenate([slot_t, np.zeros(g.num_frames)]),
        text=task_text(sample),
        text_proprio=text_states(sample),
        mode=OBJECTIVES.index(rules.objective) if rules.mode_token else None,
        video_states=None if p else states,
        action_states=states,
        video_clean=clean,
        video_target=video_target,
        frame_mask=frame_mask(sample),
        action_clean=sample.actions,
        action_target=action_target,
        action_mask=effective_action_mask(sample) * (rules.objective != FDM),
        video_schedule=rules.video_schedule,
        action_schedule=ticks.action_schedule,
    )
