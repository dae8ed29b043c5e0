"""Random geometries, samples and parameters for tests, small enough for dense attention in float64.

Tensors and parameters are exact in float32 and uniform draws sit in the middle of their grid cells, so that a float32
product and this float64 oracle start from the same values and land on the same grid entries.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from tests.restatement.flow import CLOCKS, Schedule, uniforms_of_ids
from tests.restatement.params import Rng, Sizes, normal
from tests.restatement.sample import CLOCKED_PROGRAMS, JOINT, PROGRAM_OBJECTIVES, Draws, Rules, Sample
from tests.restatement.visibility import HISTORIES, PROGRAMS


def _chance(rng: Rng, probability: float) -> bool:
    return bool(rng.random() < probability)


def random_geometry(rng: Rng) -> dict[str, Any]:
    """Keyword arguments of a `Geometry`, odd corners included: late origins, any singleton, no action at all."""
    F, A = int(rng.integers(1, 13)), int(rng.integers(1, 4))
    valid = rng.random(F * A) < rng.choice([0.0, 0.3, 0.7, 0.95])
    return {
        "num_frames": F,
        "video_tokens_per_frame": int(rng.integers(1, 5)),
        "actions_per_frame": A,
        "chunk_size": int(rng.integers(1, min(F, 6) + 1)),
        "window_size": int(rng.choice([0, 1, 2, 3, 3, 4, 5, 6, 8, 12, 64])),
        "program": str(rng.choice(PROGRAMS)),
        "history": str(rng.choice(HISTORIES)),
        "prefix_frames": int(rng.integers(2)),
        "chunk_origin": int(rng.integers(F + 1)) if _chance(rng, 0.6) else 0,
        "singleton_frame": int(rng.integers(F)) if _chance(rng, 0.5) else None,
        "boundary_only": _chance(rng, 0.35),
        "action_valid": valid if _chance(rng, 0.5) else None,
    }


def _conditional_rules(rng: Rng, program: str, objective: str, num_frames: int) -> dict[str, Any]:
    """The canonical target-only contract: frame 0 is observed, alone in its chunk and never supervised."""
    starts = ("loss_frame_start", "latent_loss_frame_start", "action_loss_frame_start")
    return dict.fromkeys(starts, 1) | {
        "program": program,
        "objective": objective,
        "chunk_size": int(rng.integers(1, num_frames)),
        "history_frames": 1,
        "chunk_origin_frame": 1,
        "singleton_chunk_frame": 0,
        "mode_token": program == "generalist_joint_denoising" and _chance(rng, 0.5),
    }


def _joint_rules(rng: Rng, program: str, num_frames: int) -> dict[str, Any]:
    prefix = _chance(rng, 0.3)
    start = int(rng.integers(1, num_frames)) if _chance(rng, 0.4) else None
    return {
        "program": program,
        "chunk_size": int(rng.integers(1, num_frames + 1)),
        "window_size": int(rng.integers(1, 9)),
        "history_stream_visibility": str(rng.choice(HISTORIES)),
        "history_frames": int(rng.integers(1, num_frames)),
        "loss_frame_start": start,
        "latent_loss_frame_end": int(rng.integers(1, num_frames + 1)) if _chance(rng, 0.3) else None,
        "action_loss_frame_start": int(rng.integers(num_frames)) if _chance(rng, 0.3) else None,
        "target_alignment": str(rng.choice(["", "next_after_context"])),
        "legacy_prefix": prefix,
        "condition_source": str(rng.choice(["video_latents", "single_frame_condition_latent"])),
        "mode_token": program == "generalist_joint_denoising" and _chance(rng, 0.5),
    }


def random_rules(rng: Rng, *, program: str, num_frames: int, **overrides: Any) -> Rules:
    """Rules that `program` allows for a sample of at least two frames; `overrides` are fields of `Rules` and win."""
    allowed = PROGRAM_OBJECTIVES.get(program, (JOINT,))
    objective = overrides.get("objective") or str(rng.choice(allowed))
    if objective not in allowed:
        raise ValueError(f"program {program!r} has no objective {objective!r}, only {allowed}")
    if objective == JOINT:
        chosen = _joint_rules(rng, program, num_frames)
    else:
        chosen = _conditional_rules(rng, program, objective, num_frames)
    chosen["clock"] = str(rng.choice(CLOCKS)) if program in CLOCKED_PROGRAMS else "independent"
    chosen["frame_shift"] = int(rng.integers(8))
    chosen["proprio_mode"] = str(rng.choice(["none", "per_chunk_additive", "text_context_token"]))
    chosen |= {"video_schedule": Schedule(1000, 5.0), "action_schedule": Schedule(1000, 1.0)}
    return Rules(**(chosen | overrides))


def _uniforms(rng: Rng, low: float, num_steps: int, count: int) -> np.ndarray:
    return uniforms_of_ids(rng.integers(int(low * num_steps), num_steps, count), num_steps)


def random_draws(rng: Rng, rules: Rules, latents: tuple[int, ...], actions: tuple[int, ...]) -> Draws:
    """Draws for latents `[C, F, H, W]` and actions `[F*A, D]`; the video side gets the prefix on top."""
    C, F, H, W = latents
    Fv, steps = F + rules.prefix_frames, rules.video_schedule.num_steps
    return Draws(
        video_u=_uniforms(rng, 0, steps, Fv),
        action_u=_uniforms(rng, 0, rules.action_schedule.num_steps, F),
        video_noise=normal(rng, C, Fv, H, W),
        action_noise=normal(rng, *actions),
        noise_condition=_chance(rng, 0.5),
        condition_u=_uniforms(rng, 0.5, steps, Fv),
        condition_noise=normal(rng, C, Fv, H, W),
    )


def _proprio(rng: Rng, rules: Rules, sizes: Sizes, num_frames: int) -> dict[str, np.ndarray]:
    """An anchor state, and states per frame or per chunk as the rules' proprio mode can take them."""
    fields = {"state": normal(rng, 2, sizes.state_dim), "state_mask": rng.integers(0, 2, (2, sizes.state_dim)) * 1.0}
    if rules.proprio_mode == "per_chunk_additive" and (rules.prefix_frames or _chance(rng, 0.6)):
        name, rows = "proprio_context_frames", num_frames
    else:
        name, rows = "proprio_context_state", -(-num_frames // min(rules.chunk_size, num_frames))
    fields[name] = normal(rng, rows, sizes.state_dim)
    fields[name + "_mask"] = (rng.random((rows, sizes.state_dim)) < 0.8) * 1.0
    return fields


def random_sample(
    rng: Rng,
    rules: Rules,
    sizes: Sizes,
    *,
    num_frames: int,
    masked_actions: bool = True,
    with_condition: bool = True,
    with_text: bool = True,
) -> Sample:
    """A sample with all tensors its rules need; masks hide single action dimensions, slots or (t0) a frame."""
    latents = (sizes.channels, num_frames, sizes.height, sizes.width)
    actions = (num_frames * sizes.actions_per_frame, sizes.action_dim)
    mask = ((rng.random(actions) < 0.8) & (rng.random((actions[0], 1)) < 0.7)) * 1.0 if masked_actions else None
    clean = normal(rng, *actions)
    if rules.is_conditional and mask is not None:
        mask[: sizes.actions_per_frame] = clean[: sizes.actions_per_frame] = 0
    return Sample(
        rules=replace(rules, text_dim=sizes.text_dim),
        draws=random_draws(rng, rules, latents, actions),
        video_latents=normal(rng, *latents),
        actions=clean,
        action_mask=mask,
        condition_latents=normal(rng, *latents) if with_condition else None,
        text_context=normal(rng, sizes.text_tokens, sizes.text_dim) if with_text else None,
        **_proprio(rng, rules, sizes, num_frames),
    )


def small_sample(
    rules: Rules, *, sizes: Sizes | None = None, num_frames: int = 4, masked_actions: bool = True
) -> Sample:
    """The same sample for the same rules, every time."""
    rng = np.random.default_rng(0)
    return random_sample(rng, rules, sizes or Sizes(), num_frames=num_frames, masked_actions=masked_actions)
