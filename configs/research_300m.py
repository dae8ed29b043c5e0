"""A network of 300 million parameters on LIBERO: an experiment a day rather than one a month.

    python -m wam_jax.plan --config configs/research_300m.py --data configs/libero.json --target h100 --devices 8
    launch/local.sh configs/research_300m.py runs/research_300m  # on one host of eight

Planned for each of 8 x H100 (80 GB), in GiB: parameters 1.1, optimizer 2.2, gradients 1.1, batches 0.1, temporaries 7.3
(about 3.5 of it activations), 11.9 in all, of 73.6 that may be used: every device holds everything, and gradients are
all that is sent, 2.1 GB by each device in an update. A token takes 1.8 GFLOP.
"""

from ml_collections import ConfigDict

from wam_jax.config import default_config


def get_config() -> ConfigDict:
    """Joint denoising of whole episodes, bf16 compute over float32 parameters that every device holds."""
    config = default_config()
    config.name = "research_300m"

    config.data.store = "stores/libero"
    config.data.train_batch_size = 5
    config.data.val_batch_size = 1
    config.data.num_workers = 8
    config.data.batching.mode = "packed"
    config.data.sample_construction.mode = "full_segment"
    config.data.sample_construction.chunk_size = 4
    config.data.sample_construction.window_size = 64

    config.policy.program = "joint"
    config.policy.sequence_contract = "prefix_frame"
    config.policy.proprio_context_mode = "per_chunk_additive"
    config.policy.action_hidden_size = 512
    config.policy.action_ffn_dim = 2048
    config.policy.action_expert_init_mode = "video_weight_interpolate"

    config.backbone.hidden_size = 1024
    config.backbone.num_layers = 12
    config.backbone.num_heads = 8
    config.backbone.head_dim = 128
    config.backbone.ffn_dim = 4096
    config.backbone.text_dim = 4096
    config.backbone.max_text_tokens = 512
    config.backbone.compute_dtype = "bfloat16"
    config.backbone.remat = "save_attention"

    config.training.num_steps = 20_000
    config.training.text_dropout = 0.1
    config.training.optimizer.learning_rate = 1e-4
    config.training.optimizer.schedule = "cosine"
    config.training.optimizer.warmup_steps = 500
    config.training.optimizer.final_learning_rate = 1e-6
    config.training.optimizer.beta2 = 0.95
    config.training.optimizer.weight_decay = 0.1
    config.training.optimizer.max_grad_norm = 2.0
    config.training.checkpoint_every = 1000
    config.training.validate_every = 1000
    config.validation.num_draws = 64

    config.trainer.mesh = (-1, 1)
    return config
