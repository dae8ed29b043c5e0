"""A config file that sets what is required, for tests to write over."""

from collections.abc import Callable
from pathlib import Path

import pytest

HEADER = """
from wam_jax.config import default_config


def get_config(variant=""):
    config = default_config()
    config.name = "tiny" + variant
    config.data.store = "store"
    config.policy.program = "joint"
    config.training.num_steps = 10
"""


@pytest.fixture
def config_file(tmp_path: Path) -> Callable[..., str]:
    """Writes a config file with these further lines and returns its path."""

    def write(*lines: str) -> str:
        path = tmp_path / "config.py"
        path.write_text(HEADER + "".join(f"    {line}\n" for line in lines) + "    return config\n")
        return str(path)

    return write
