"""Generalist joint denoising: one network that plans, predicts frames from actions, and actions from frames.

    python -m wam_jax.train --config configs/gjd.py --workdir runs/gjd

The network of the quick start on segments of nine latent frames. Of ten draws six are joint ones of demonstrations; one
each is forward dynamics (actions given, video predicted) and inverse dynamics (the other way round) of demonstrations,
and one each of counterfactual branches, which begin at states of demonstrations and go on under perturbed actions. A
token among the text tells the network which of the three it is asked for. The curves have every objective on its own.
"""

from ml_collections import ConfigDict

from wam_jax.config import default_config


def get_config() -> ConfigDict:
    """The configuration of generalist joint denoising."""
    config = default_config()
    config.name = "gjd"

    config.data.store = "embedded:metaworld12"
    config.data.train_batch_size = 8
    config.data.val_batch_size = 8
    config.data.sample_construction.mode = "uniform_segment"
    config.data.sample_construction.max_segment_frames = 9
    config.data.sample_construction.chunk_size = 2
    config.data.sample_construction.window_size = 16
    config.data.sample_construction.sample_order_mode = "replacement"
    config.data.routing.routes = (
        ("real_demo", "joint", 0.6),
        ("real_demo", "action_conditioned_video", 0.1),
        ("real_demo", "video_conditioned_action", 0.1),
        ("counterfactual_dynamics", "action_conditioned_video", 0.1),
        ("counterfactual_dynamics", "video_conditioned_action", 0.1),
    )

    config.policy.program = "generalist_joint_denoising"
    config.policy.generalist_mode_text_token = True
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

    config.training.num_steps = 300
    config.training.optimizer.learning_rate = 2e-3
    config.training.optimizer.schedule = "cosine"
    config.training.optimizer.warmup_steps = 20
    config.training.optimizer.final_learning_rate = 4e-5
    config.training.optimizer.beta2 = 0.95
    config.training.optimizer.weight_decay = 0.1
    config.training.optimizer.max_grad_norm = 1.0
    config.training.checkpoint_every = 100
    config.training.validate_every = 100
    config.validation.num_draws = 96
    return config
