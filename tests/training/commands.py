"""The command on a tiny store: its files, and ways to run it."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.stores import write_tiny_store
from wam_jax.training.metrics import Row, read_rows
from wam_jax.training.start import METRICS_FILE

_CONFIG = """
from wam_jax.config import default_config


def get_config():
    config = default_config()
    config.name = "tiny"
    config.data.store = {store!r}
    config.data.train_batch_size = config.data.val_batch_size = 2
    config.data.sample_construction.mode = "uniform_segment"
    config.data.sample_construction.max_segment_frames = 3
    config.policy.program = "joint"
    config.backbone.update(latent_channels=3, text_dim=4, head_dim=8, max_text_tokens=5)
    config.backbone.update(hidden_size=16, num_heads=2, freq_dim=8)
    config.training.update(num_steps=8, checkpoint_every=3, validate_every=4, text_dropout=0.25)
    config.training.optimizer.update(schedule="cosine", warmup_steps=2, max_grad_norm=1.0, weight_decay=0.1)
    config.validation.num_draws = 3
    return config
"""


def make_experiment(directory: Path) -> Path:
    """Writes a store and a config file; returns the file."""
    splits = ["train"] * 6 + ["val"] * 2
    store = write_tiny_store(directory / "store", (3, 5, 4, 4, 6, 5, 4, 3), splits=splits, payload="safetensors")
    config = directory / "config.py"
    config.write_text(_CONFIG.format(store=str(store)))
    return config


def run_command(*arguments: str | Path, module: str = "wam_jax.train") -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    words = [sys.executable, "-m", module, *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=False, env=dict(os.environ), timeout=300)


def numbers(workdir: Path) -> list[Row]:
    """Rows without times."""
    dropped = ("seconds", "per_second")
    return [{k: v for k, v in row.items() if not k.endswith(dropped)} for row in read_rows(workdir / METRICS_FILE)]
