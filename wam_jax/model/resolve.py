"""From a run's configuration and the sizes of its data to the one `ModelConfig` that both fix."""

from wam_jax.config.recipe import attention_backend, tile_alignment
from wam_jax.config.schema import Config
from wam_jax.errors import InputError
from wam_jax.model.config import ExpertSize, ModelConfig


def model_config(
    config: Config,
    *,
    action_dim: int,
    state_dim: int,
    text_dim: int,
    latent_height: int,
    latent_width: int,
    actions_per_frame: int,
) -> ModelConfig:
    """Resolves a run's configuration with the sizes that only the data knows.

    Args:
        config: the run.
        action_dim: D of the store.
        state_dim: entries of a state; 0 where the store has none.
        text_dim: width of the store's text vectors (`config.backbone.text_dim` where it has none).
        latent_height: H of the store.
        latent_width: W of the store.
        actions_per_frame: A of the store.

    Raises:
        InputError: for sizes that cannot be built, naming the field.
    """
    backbone, policy = config.backbone, config.policy
    if text_dim != backbone.text_dim:
        raise InputError(
            "backbone.text_dim", backbone.text_dim, f"the text vectors of the data have {text_dim} entries"
        )
    if policy.num_action_layers not in (None, backbone.num_layers):
        remedy = f"both experts have backbone.num_layers = {backbone.num_layers} layers; unset it"
        raise InputError("policy.num_action_layers", policy.num_action_layers, remedy)
    video, action = _experts(config)
    return ModelConfig(
        latent_channels=backbone.latent_channels,
        latent_height=latent_height,
        latent_width=latent_width,
        patch_size=backbone.patch_size,
        action_dim=action_dim,
        actions_per_frame=actions_per_frame,
        state_dim=state_dim,
        text_dim=text_dim,
        video=video,
        action=action,
        num_layers=backbone.num_layers,
        num_heads=backbone.num_heads,
        head_dim=backbone.head_dim,
        freq_dim=backbone.freq_dim,
        eps=backbone.eps,
        cross_attn_norm=backbone.cross_attn_norm,
        proprio=policy.proprio_context_mode,
        mode_token=policy.generalist_mode_text_token,
        action_init=policy.action_expert_init_mode,
        compute_dtype=backbone.compute_dtype,
        param_dtype=backbone.param_dtype,
        remat=backbone.remat,
        attention=attention_backend(config) or "auto",
        tile=tile_alignment(config),
        batch_invariant=config.numerics.batch_invariant,
    )


def _experts(config: Config) -> tuple[ExpertSize, ExpertSize]:
    """Video and action expert; what the action expert leaves open is the video expert's."""
    backbone, policy = config.backbone, config.policy
    video = ExpertSize(width=backbone.hidden_size, ffn_dim=_given(backbone.ffn_dim, 4 * backbone.hidden_size))
    width, ffn_dim = _given(policy.action_hidden_size, video.width), _given(policy.action_ffn_dim, video.ffn_dim)
    return video, ExpertSize(width=width, ffn_dim=ffn_dim)


def _given(value: int | None, default: int) -> int:
    return default if value is None else value
