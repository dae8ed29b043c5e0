"""LIBERO with the 5B video expert (the sizes of Wan2.2-TI2V-5B) and a 2048-wide action expert.

    python -m wam_jax.plan --config configs/libero_5b.py --data configs/libero.json --target h100 --devices 8
    launch/local.sh configs/libero_5b.py runs/libero_5b          # on one host of eight

7.56 billion parameters. Planned for each of 8 x H100 (80 GB), in GiB: parameters 3.5, optimizer 7.1, gradients 3.5,
batches 0.1, temporaries 45.9 (about 24.6 of it activations), 60.1 in all, of 73.6 that may be used. That is with five
of the longest episodes in one row, which hardly ever meet; the rows of most updates need 34.6. An update of 40 episodes
has some 155,000 tokens at 39 GFLOP each, and every device sends 53 GB. On 64 (8 hosts, 320 episodes) a device holds the
same and sends 6.6 GB more, over "data", once an update.

`configs/libero.json` describes data of LIBERO's sizes, with lengths like those of its suites at 20 Hz, four raw frames
to a latent one. They are no measurement: plan again once there is a store.
"""

from ml_collections import ConfigDict

from wam_jax.config import default_config


def get_config() -> ConfigDict:
    """Joint denoising of whole episodes, bf16 compute over float32 parameters split over eight devices."""
    config = default_config()
    config.name = "libero_5b"

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
    config.policy.action_hidden_size = 2048
    config.policy.action_ffn_dim = 8192
    config.policy.action_expert_init_mode = "video_weight_interpolate"

    config.backbone.hidden_size = 3072
    config.backbone.num_layers = 30
    config.backbone.num_heads = 24
    config.backbone.head_dim = 128
    config.backbone.ffn_dim = 14336
    config.backbone.text_dim = 4096
    config.backbone.max_text_tokens = 512
    config.backbone.compute_dtype = "bfloat16"
    config.backbone.remat = "save_attention"

    config.training.num_steps = 10_000
    config.training.text_dropout = 0.1
    config.training.optimizer.learning_rate = 1e-5
    config.training.optimizer.warmup_steps = 10
    config.training.optimizer.beta2 = 0.95
    config.training.optimizer.weight_decay = 0.1
    config.training.optimizer.max_grad_norm = 2.0
    config.training.checkpoint_every = 500
    config.training.validate_every = 500
    config.validation.num_draws = 64

    config.trainer.mesh = (-1, 8)
    return config
