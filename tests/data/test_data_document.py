"""docs/data.md: its five commands work as they stand, and so does its encoder."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from tests.data.conversion.robots import record, write_lerobot
from wam_jax import train
from wam_jax.data import convert, inspect
from wam_jax.data.conversion.encoders import LatentEncoder, encode_video
from wam_jax.data.conversion.options import LAYOUTS
from wam_jax.data.store import open_store

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "data.md").read_text()
COMMANDS = {"convert": convert.main, "inspect": inspect.main, "train": train.main}
SMALL = [
    *("--config.backbone.hidden_size=32", "--config.backbone.num_layers=1", "--config.backbone.num_heads=2"),
    *("--config.backbone.head_dim=8", "--config.backbone.ffn_dim=32", "--config.backbone.freq_dim=16"),
    *("--config.policy.action_hidden_size=32", "--config.policy.action_ffn_dim=32", "--config.training.num_steps=2"),
    *("--config.validation.num_draws=4", "--config.validation.report_draws=1"),
    *("--config.training.optimizer.warmup_steps=1", "--config.data.batching.max_compiled_shapes=1"),
]


def commands():
    """The five commands, without the words that start them."""
    block = re.search(r"five commands.*?```\n(.*?)```", DOCUMENT, re.DOTALL)
    assert block is not None
    lines = block[1].strip().splitlines()
    assert len(lines) == 5
    return [shlex.split(line.split("python -m wam_jax.")[1]) for line in lines[1:]]


@pytest.mark.parametrize("version", ["v3.0", pytest.param("v2.1", marks=pytest.mark.slow)])
def test_the_five_commands(tmp_path, monkeypatch, version):
    write_lerobot(tmp_path / "my_robot", [record(i, raw_frames=13 + 4 * (i % 3)) for i in range(24)], version=version)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    for name, *words in commands():
        command = name.removeprefix("data.")
        small = {"train": SMALL, "convert": ["--patch", "8", "--channels", "8"]}.get(command, [])
        fitted = ["--config.backbone.latent_channels=8"] if command == "train" else []
        assert COMMANDS[command]([*words, *small, *fitted]) == 0, words
    assert len(open_store("stores/my_robot")) == 24
    assert (tmp_path / "my_robot-000000.png").stat().st_size > 10_000
    rows = [json.loads(line) for line in (tmp_path / "runs/my_robot/metrics.jsonl").read_text().splitlines()]
    losses = [row["loss"] for row in rows if row["phase"] == "train"]
    assert len(losses) == 2
    assert np.isfinite(losses).all()


def test_the_encoder_is_one():
    (example,) = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
    scope = {}
    exec(compile(example, "data.md", "exec"), scope)
    encoder = scope["make_encoder"]()
    assert isinstance(encoder, LatentEncoder)
    video, alone = encode_video(encoder, np.zeros((18, 32, 48, 3), np.uint8), anchored=True)
    assert alone is not None
    assert video.shape == alone.shape == (48, 6, 2, 3)


def test_flags_of_the_document_exist(capsys):
    with pytest.raises(SystemExit):
        convert.main(["--help"])
    text = capsys.readouterr().out
    words = set(re.findall(r"--[a-z][a-z-]+", DOCUMENT)) - {
        "--verify",
        "--episode",
        "--picture",
        "--config",
        "--workdir",
    }
    assert [word for word in words if word not in text] == []
    assert all(layout in text for layout in LAYOUTS)
