"""The way from one draw of the product to one sample of the restatement, and between their parameter trees.

The sample is read again from the store and cut here by hand; only the random numbers are the product's own, since the
keys of a draw are the product's to choose.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.restatement import sample as restated
from tests.restatement.flow import Schedule
from tests.restatement.losses import terms_and_gradients
from tests.restatement.prepare import chunk_origin
from tests.restatement.tables import Architecture
from tests.support.networks import worst_error
from wam_jax import keys
from wam_jax.config.schema import Config
from wam_jax.data.drawing.draws import DrawTable
from wam_jax.data.storage.store import Store
from wam_jax.keys import Purpose

Params = dict[str, Any]
TOLERANCE = 3e-5
_LOSSES = {
    "loss": "joint_loss",
    "video_loss": "video_diffusion_loss",
    "action_loss": "action_diffusion_loss",
    "latent_mse": "latent_mse",
    "action_mse": "action_mse",
}
_FRAMES = "proprio_context_frames"
_STARTS = ("loss_frame_start", "latent_loss_frame_start", "action_loss_frame_start")
_ENDS = tuple(name.replace("start", "end") for name in _STARTS)


def check_restated(
    losses: Mapping[str, np.ndarray], gradient: Params, params: Params, config: Config, store: Store, draw: DrawTable
) -> None:
    """Compares a sample's losses, metrics and gradient with the restatement's: relative errors below `TOLERANCE`."""
    sample, own = restated_sample(config, store, draw), restated_params(params)
    terms, expected = terms_and_gradients(own, sample, architecture(config))
    for ours, theirs in _LOSSES.items():
        assert losses[ours] == pytest.approx(terms[theirs], rel=TOLERANCE, abs=1e-12), ours
    leaf, error = worst_error(restated_params(gradient), expected)
    assert error < TOLERANCE, leaf


class Float32Timesteps(Schedule):
    """The grid with timesteps as the network is given them: the sinusoid of 800 feels the rounding of float32."""

    @property
    def timesteps(self) -> np.ndarray:
        return super().timesteps.astype(np.float32).astype(np.float64)


def architecture(config: Config) -> Architecture:
    """What the restatement needs to know of the network."""
    backbone = config.backbone
    return Architecture(
        heads=backbone.num_heads,
        head_dim=backbone.head_dim,
        freq_dim=backbone.freq_dim,
        patch=backbone.patch_size[1:],
        eps=backbone.eps,
    )


def restated_sample(config: Config, store: Store, draw: DrawTable) -> restated.Sample:
    """The sample of one draw (arrays of shape []) as the restatement describes it."""
    rules, whole = _rules(config, draw), _whole(store, draw)
    arrays = _segment(whole, store, draw, masks_first=rules.is_conditional or _contract(config) == "context")
    before = max(0, int(draw.segment_start) - 1) if rules.prefix_frames else int(draw.segment_start)
    if rules.prefix_frames:
        arrays["condition_latents"] = whole["condition_latents"][:, before:]
    return restated.Sample(
        rules=rules,
        draws=_draws(config, draw, arrays, rules),
        video_latents=arrays["video_latents"],
        actions=arrays["actions"],
        action_mask=arrays["action_mask"],
        condition_latents=arrays.get("condition_latents"),
        text_context=_text(store, draw, whole),
        **_states(_frame_states(whole, store), rules, draw, before=before, single=_FRAMES not in whole),
    )


def _whole(store: Store, draw: DrawTable) -> dict[str, np.ndarray]:
    """All arrays of the draw's episode, float64."""
    return {name: np.asarray(array, np.float64) for name, array in store.read(int(draw.episode)).items()}


def _segment(
    whole: dict[str, np.ndarray], store: Store, draw: DrawTable, *, masks_first: bool
) -> dict[str, np.ndarray]:
    """The draw's frames; the actions that lead into its first frame are not part of it, unless the episode begins."""
    start, stop = int(draw.segment_start), int(draw.segment_start + draw.num_frames)
    slots = store.manifest.actions_per_frame
    cut = {name: whole[name][:, start:stop] for name in ("video_latents", "condition_latents") if name in whole}
    cut |= {name: whole[name][start * slots : stop * slots].copy() for name in ("actions", "action_mask")}
    if start or masks_first:
        cut["actions"][:slots] = cut["action_mask"][:slots] = 0
    return cut


def _frame_states(whole: dict[str, np.ndarray], store: Store) -> np.ndarray:
    """The state at each latent frame of the episode, masked entries zero."""
    name, stride = (_FRAMES, 1) if _FRAMES in whole else ("state", store.manifest.encoder.temporal_stride)
    return (whole[name] * whole.get(f"{name}_mask", 1.0))[::stride]


def _states(
    states: np.ndarray, rules: restated.Rules, draw: DrawTable, *, before: int, single: bool
) -> dict[str, np.ndarray]:
    """The proprioception fields of a sample: the anchor state, and states per frame or as text tokens."""
    frames, start = int(draw.num_frames), int(draw.segment_start)
    own, fields = states[start : start + frames], {"state": states[before : before + 1]}
    if rules.proprio_mode == "text_context_token" and not single:
        last = [chunk * rules.chunk_size + chunk_origin(rules) - 1 for chunk in range(-(-frames // rules.chunk_size))]
        return fields | {"proprio_context_state": own[np.clip(last, 0, frames - 1)]}
    return fields | ({_FRAMES: own} if rules.proprio_mode == "per_chunk_additive" else {})


def _text(store: Store, draw: DrawTable, whole: dict[str, np.ndarray]) -> np.ndarray | None:
    """The prompt's vectors, or those that stand in for a dropped one: zeros of its size where there are none."""
    if store.manifest.text is None and "text_context" not in whole:
        return None
    if "text_context" in whole:
        dropped = whole.get("negative_text_context", np.zeros_like(whole["text_context"]))
        return dropped if draw.drop_text else whole["text_context"]
    prompt = "" if draw.drop_text else store.index.instructions[draw.episode]
    return np.asarray(store.text(prompt), np.float64)


def _rules(config: Config, draw: DrawTable) -> restated.Rules:
    policy, training, construction = config.policy, config.training, config.data.sample_construction
    contract = _contract(config)
    ranges: dict[str, Any] = dataclasses.asdict(construction.loss_range)
    if draw.objective or contract == "context":
        ranges |= dict.fromkeys(_STARTS if draw.objective else _STARTS[:1], 1)
    if draw.objective:
        ranges |= dict.fromkeys(_ENDS)
    return restated.Rules(
        program=policy.program,
        objective=restated.OBJECTIVES[int(draw.objective)],
        chunk_size=int(draw.chunk_size),
        window_size=int(draw.window_size),
        history_frames=int(draw.history_frames),
        history_stream_visibility=policy.history_stream_visibility,
        frame_shift=int(draw.frame_shift),
        legacy_prefix=contract == "prefix",
        target_alignment=construction.target_alignment,
        clock=policy.joint_timestep_coupling,
        use_condition_latents=policy.use_condition_latents,
        condition_source=policy.context_condition_latent_source,
        proprio_mode=policy.proprio_context_mode,
        mode_token=policy.generalist_mode_text_token,
        text_dim=config.backbone.text_dim,
        max_text_tokens=config.backbone.max_text_tokens,
        video_schedule=Float32Timesteps(training.num_video_timesteps, training.video_sigma_shift),
        action_schedule=Float32Timesteps(training.num_action_timesteps, training.action_sigma_shift),
        action_loss_weight=training.action_loss_weight,
        latent_loss_weight=training.latent_loss_weight,
        **ranges,
    )


def _contract(config: Config) -> str:
    """`default`, `context` or `prefix`, by either name."""
    words = {"rollout": "context", "legacy": "prefix"}
    word = config.policy.sequence_contract.split("_")[0]
    return words.get(word, word)


def _draws(config: Config, draw: DrawTable, arrays: dict[str, np.ndarray], rules: restated.Rules) -> restated.Draws:
    identity = jnp.array([draw.phase, draw.epoch, draw.position], jnp.uint32)
    draw_key = keys.draw_keys(jnp.uint32(config.seed), identity)
    channels, frames, height, width = arrays["video_latents"].shape
    video = jnp.arange(-rules.prefix_frames, frames)
    slots = arrays["actions"].shape[0] // frames
    shared = rules.clock != "independent"

    def unit(purpose: Purpose, of: jax.Array) -> np.ndarray:
        return np.asarray(keys.unit(keys.frame_keys(keys.purpose_keys(draw_key, purpose), of)), np.float64)

    def noise(purpose: Purpose, of: jax.Array, *shape: int) -> np.ndarray:
        drawn = keys.normal(keys.frame_keys(keys.purpose_keys(draw_key, purpose), of), shape)
        return np.asarray(drawn, np.float64)

    decision = float(keys.unit(keys.purpose_keys(draw_key, Purpose.CONDITION_DECISION)))
    action_noise = noise(Purpose.ACTION_NOISE, jnp.arange(frames), slots, arrays["actions"].shape[1])
    return restated.Draws(
        video_u=unit(Purpose.SHARED_TIMESTEP if shared else Purpose.VIDEO_TIMESTEP, video),
        action_u=unit(Purpose.ACTION_TIMESTEP, jnp.arange(frames)),
        video_noise=noise(Purpose.VIDEO_NOISE, video, channels, height, width).transpose(1, 0, 2, 3),
        action_noise=action_noise.reshape(frames * slots, -1),
        noise_condition=decision < config.policy.noisy_video_condition_prob,
        condition_u=0.5 + 0.5 * unit(Purpose.CONDITION_TIMESTEP, video),
        condition_noise=noise(Purpose.CONDITION_NOISE, video, channels, height, width).transpose(1, 0, 2, 3),
    )


def restated_params(params: Params) -> Params:
    """The product's parameters, or gradients, under the restatement's names; float64."""
    params = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params)
    video, action = params["video_expert"], params["action_expert"]
    found = {"video": _expert(video, "patch_embedding"), "action": _expert(action, "action_embedding")}
    text = video["text_embedding"]
    found["video"] |= {"text_in": _linear(text["hidden"]), "text_out": _linear(text["output"])}
    found["action"] |= {"text_in": _linear(action["text_embedding"])}
    if "proprio_encoder" in params:
        found["proprio_encoder"] = _linear(params["proprio_encoder"])
    if "context_projection" in action:
        found["proprio_to_action"] = _linear(action["context_projection"])
    context = params.get("text_context", {})
    if "proprio_encoder" in context:
        found["proprio_text"] = _linear(context["proprio_encoder"])
    if "mode" in context:
        found["mode_tokens"] = context["mode"]["table"]
    return found


def _linear(layer: Params) -> Params:
    return {"w": layer["kernel"], "b": layer["bias"]}


def _expert(expert: Params, embedding: str) -> Params:
    time, head = expert["time_embedding"], expert["head"]
    layers = len(expert["blocks"]["modulation"]["table"])
    return {
        "embed": _linear(expert[embedding]),
        "time_in": _linear(time["mlp"]["hidden"]),
        "time_out": _linear(time["mlp"]["output"]),
        "modulation": _linear(time["modulation"]),
        "blocks": [_block(jax.tree.map(lambda leaf, i=i: leaf[i], expert["blocks"])) for i in range(layers)],
        "head_table": head["modulation"]["table"],
        "head": _linear(head["projection"]),
    }


def _block(block: Params) -> Params:
    found = {"table": block["modulation"]["table"], **_attention(block["self_attention"])}
    if "cross_norm" in block:
        found["cross_norm"] = dict(block["cross_norm"])
    found["cross"] = _attention(block["cross_attention"])
    forward = block["feed_forward"]
    return found | {"ffn_in": _linear(forward["hidden"]), "ffn_out": _linear(forward["output"])}


def _attention(layer: Params) -> Params:
    names = {"q": "query", "k": "key", "v": "value", "o": "output"}
    norms = {"q_norm": "query_norm", "k_norm": "key_norm"}
    return {short: _linear(layer[name]) for short, name in names.items()} | {
        short: layer[name]["scale"] for short, name in norms.items()
    }
