"""The decoder, losses and metrics of one sample, and the gradients of its loss, in float64."""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from tests.restatement.model import Array, Params, forward
from tests.restatement.prepare import Inputs, prepare
from tests.restatement.sample import Rules, Sample
from tests.restatement.tables import Architecture, Tables, tables

type Terms = dict[str, Array]
type Velocities = tuple[Array, Array]


@jax.tree_util.register_dataclass
@dataclass(frozen=True, kw_only=True)
class Target:
    """What one stream's velocity is compared with: video `[C, Fv, H, W]` and `[Fv]`, action `[F*A, D]` and `[F*A]`."""

    noisy: np.ndarray
    clean: np.ndarray
    velocity: np.ndarray
    mask: np.ndarray  # video [Fv], action [F*A, D]
    weight: np.ndarray  # per frame or slot
    sigma: np.ndarray  # per frame or slot
    loss_weight: np.ndarray


def targets(inputs: Inputs, rules: Rules) -> tuple[Target, Target]:
    """Targets of video and action; weights and sigmas are looked up at the noisy copy's timesteps."""
    g, slots = inputs.geometry, len(inputs.action_clean)
    video_t, action_t = inputs.video_timesteps[: g.model_frames], inputs.action_timesteps[: g.num_frames]
    action_t = np.repeat(action_t, g.actions_per_frame)
    video = Target(
        noisy=inputs.video[:, : g.model_frames],
        clean=inputs.video_clean,
        velocity=inputs.video_target,
        mask=inputs.frame_mask * rules.latent_objective,
        weight=inputs.video_schedule.weight_at(video_t),
        sigma=inputs.video_schedule.sigma_at(video_t),
        loss_weight=np.array(rules.latent_loss_weight),
    )
    action = Target(
        noisy=inputs.actions[:slots],
        clean=inputs.action_clean,
        velocity=inputs.action_target,
        mask=inputs.action_mask,
        weight=inputs.action_schedule.weight_at(action_t),
        sigma=inputs.action_schedule.sigma_at(action_t),
        loss_weight=np.array(rules.action_loss_weight),
    )
    return video, action


def action_loss(velocity: Array, target: Array, mask: Array, weight: Array) -> jax.Array:
    """Mean over all slots of `sum_d w m err^2 / max(1, sum_d m)`; `weight [slots]`. Masked slots dilute the mean."""
    error = (weight[:, None] * mask * (velocity - target) ** 2).sum(-1)
    return jnp.mean(error / jnp.maximum(1, mask.sum(-1)))


def video_loss(velocity: Array, target: Array, mask: Array, weight: Array) -> jax.Array:
    """`sum(w mf err^2) / (max(1, sum(mf)) C H W)` over `[C, Fv, H, W]`; `mask` and `weight` are `[Fv]`."""
    C, _, H, W = target.shape
    error = (weight * mask)[None, :, None, None] * (velocity - target) ** 2
    return error.sum() / (jnp.maximum(1, mask.sum()) * C * H * W)


def action_mse(estimate: Array, actions: Array, mask: Array) -> jax.Array:
    return (mask * (estimate - actions) ** 2).sum() / jnp.maximum(1, mask.sum())


def decode(velocities: Velocities, video: Target, action: Target) -> Terms:
    """Losses and metrics of the predicted velocities; the denoised estimate is `x_t - sigma v`."""
    video_v, action_v = velocities
    L_v = video_loss(video_v, video.velocity, video.mask, video.weight)
    L_a = action_loss(action_v, action.velocity, action.mask, action.weight)
    latents = video.noisy - video.sigma[:, None, None] * video_v
    actions = action.noisy - action.sigma[:, None] * action_v
    return {
        "joint_loss": action.loss_weight * L_a + video.loss_weight * L_v,
        "action_diffusion_loss": L_a,
        "weighted_action_diffusion_loss": action.loss_weight * L_a,
        "video_diffusion_loss": L_v,
        "weighted_video_diffusion_loss": video.loss_weight * L_v,
        "action_mse": action_mse(actions, action.clean, action.mask),
        "latent_mse": video_loss(latents, video.clean, video.mask, jnp.ones_like(video.mask)),
    }


def _predict(
    params: Params, t: Tables, video: Target, action: Target, arch: Architecture
) -> tuple[Array, tuple[Velocities, Terms]]:
    velocities = forward(params, t, arch, video.clean.shape)
    terms = decode(velocities, video, action)
    return terms["joint_loss"], (velocities, terms)


# Compiling dominates the cost of samples this small, so the compiler is told to optimise nothing.
_jit = partial(jax.jit, static_argnames="arch", compiler_options={"xla_backend_optimization_level": 0})
_run = _jit(_predict)
_run_gradients = _jit(jax.grad(_predict, has_aux=True))


def predict(params: Params, sample: Sample, arch: Architecture) -> tuple[np.ndarray, np.ndarray, dict[str, float]]:
    """Video velocity `[C, Fv, H, W]`, action velocity `[F*A, D]` and all loss terms of a sample, in float64."""
    inputs = prepare(sample, patch=arch.patch)
    with jax.enable_x64(True):
        _, (velocities, terms) = _run(params, tables(inputs, arch), *targets(inputs, sample.rules), arch=arch)
        video, action = map(np.asarray, velocities)
        return video, action, {name: float(term) for name, term in terms.items()}


def terms_and_gradients(params: Params, sample: Sample, arch: Architecture) -> tuple[dict[str, float], Params]:
    """All loss terms of a sample and the gradient of its `joint_loss`: a tree like `params` of NumPy float64 arrays.

    Samples of equal shapes share one compiled program, whatever their rules.
    """
    inputs = prepare(sample, patch=arch.patch)
    with jax.enable_x64(True):
        tree, (_, terms) = _run_gradients(params, tables(inputs, arch), *targets(inputs, sample.rules), arch=arch)
        return {name: float(term) for name, term in terms.items()}, jax.tree.map(np.asarray, tree)


def gradients(params: Params, sample: Sample, arch: Architecture) -> Params:
    """The second of `terms_and_gradients`."""
    return terms_and_gradients(params, sample, arch)[1]
