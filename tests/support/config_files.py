"""A tiny recipe as a config file, for tests of commands."""

from pathlib import Path

from tests.support.stores import write_tiny_store

_CONFIG = """
from wam_jax.config import default_config

def get_config():
    config = default_config()
    config.name = "tiny"
    config.data.store = {store!r}
    config.data.train_batch_size = 2
    config.data.val_batch_size = 2
    config.data.batching.mode = "packed"
    config.data.batching.bucket_pool_size = 4
    config.data.batching.max_compiled_shapes = 1
    config.policy.program = "joint"
    config.training.num_steps = 4
    config.validation.num_draws = 1
    sizes = dict(latent_channels=3, hidden_size=8, num_heads=1, head_dim=8, ffn_dim=8, text_dim=4, freq_dim=4)
    config.backbone.update(sizes)
    return config
"""


def write_config(directory: Path) -> str:
    """Writes a config file beside a store of short episodes; gives its path."""
    write_tiny_store(directory / "store", lengths=(3, 5, 2, 4, 6, 2, 3, 4, 3))
    path = directory / "config.py"
    path.write_text(_CONFIG.format(store=str(directory / "store")))
    return str(path)
