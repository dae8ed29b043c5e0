"""Joint video and action denoising on the demonstrations that ship with the package.

    python -m wam_jax.train --config configs/quickstart.py --workdir runs/quickstart

Whole demonstrations of 9 to 55 latent frames (33 to 217 camera frames), four to an update, packed back to back into
one row. The clean video copy is the video itself, half the time noised. A small network in float32: sized for two CPU
cores, not for a robot.
"""

from ml_collections import ConfigDict

from wam_jax.config import default_config


def get_config() -> ConfigDict:
    """The configuration of the quick start."""
    config = default_config()
    config.name = "quickstart"

    config.data.store = "embedded:metaworld12"
    config.data.train_batch_size = 4
    config.data.val_batch_size = 4
    config.data.batching.mode = "packed"
    config.data.batching.max_compiled_shapes = 3
    config.data.sample_construction.mode = "full_segment"
    config.data.sample_construction.chunk_size = 2
    config.data.sample_construction.window_size = 16

    config.policy.program = "joint"
    config.policy.proprio_context_mode = "per_chunk_additive"
    config.policy.use_condition_latents = False
    config.policy.action_hidden_size = 128
    config.policy.action_ffn_dim = 256
    config.policy.action_expert_init_mode = "video_weight_interpolate"

    config.backbone.hidden_size = 256
    config.backbone.num_layers = 4
    config.backbone.num_heads = 4
    config.backbone.head_dim = 32
    config.backbone.ffn_dim = 512
    config.backbone.text_dim = 64
    config.backbone.freq_dim = 128

    config.training.num_steps = 180
    config.training.optimizer.learning_rate = 2e-3
    config.training.optimizer.schedule = "cosine"
    config.training.optimizer.warmup_steps = 20
    config.training.optimizer.final_learning_rate = 4e-5
    config.training.optimizer.beta2 = 0.95
    config.training.optimizer.weight_decay = 0.1
    config.training.optimizer.max_grad_norm = 1.0
    config.training.checkpoint_every = 60
    config.training.validate_every = 60
    config.validation.num_draws = 48
    return config
