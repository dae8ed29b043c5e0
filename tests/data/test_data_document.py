"""docs/data.md: its five commands work as they stand, and so does its encoder."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from tests.data.conversion.robots import record, write_lerobot
from wam_jax import train
from wam_jax.config import load
from wam_jax.data import convert, inspect
from wam_jax.data.conversion.encoders import LatentEncoder, encode_video
from wam_jax.data.conversion.options import LAYOUTS
from wam_jax.data.loader import TrainData
from wam_jax.data.storage.store import open_store

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "data.md").read_text()
COMMANDS = {"convert": convert.main, "inspect": inspect.main}
SMALL = [
    *("--config.backbone.hidden_size=32", "--config.backbone.num_layers=1", "--config.backbone.num_heads=2"),
    *("--config.backbone.head_dim=8", "--config.backbone.ffn_dim=32", "--config.backbone.freq_dim=16"),
    *("--config.policy.action_hidden_size=32", "--config.policy.action_ffn_dim=32", "--config.training.num_steps=2"),
    *("--config.backbone.latent_channels=8", "--config.validation.num_draws=4", "--config.validation.report_draws=1"),
    *("--config.training.optimizer.warmup_steps=1", "--config.data.batching.max_compiled_shapes=1"),
]


def commands():
    """The five commands, without the words that start them."""
    block = re.search(r"five commands.*?```\n(.*?)```", DOCUMENT, re.DOTALL)
    assert block is not None
    lines = block[1].strip().splitlines()
    assert len(lines) == 5
    return [shlex.split(line.split("python -m wam_jax.")[1]) for line in lines[1:]]


def prepare(directory, version):
    """A data set called `my_robot` and the repository's configurations, in `directory`."""
    write_lerobot(directory / "my_robot", [record(i, raw_frames=13 + 4 * (i % 3)) for i in range(24)], version=version)
    (directory / "configs").symlink_to(ROOT / "configs")


def run_all_but_training():
    """The commands before the last; the last one's words."""
    *before, (_, *last) = commands()
    for name, *words in before:
        command = name.removeprefix("data.")
        small = ["--patch", "8", "--channels", "8"] if command == "convert" else []
        assert COMMANDS[command]([*words, *small]) == 0, words
    return [*last, *SMALL]


def test_the_commands_up_to_packed_batches(tmp_path, monkeypatch):
    prepare(tmp_path, "v3.0")
    monkeypatch.chdir(tmp_path)
    words = run_all_but_training()
    assert (tmp_path / "my_robot-000000.png").stat().st_size > 10_000
    config = load(words[1], [word for word in words if word.startswith("--config.")]).config
    data = TrainData(config, open_store(config.data.store), rows=range(1))
    assert config.data.batching.mode == "packed"
    steps = data.steps()
    held = [int(next(steps).batches[0].samples.valid.sum()) for _ in range(2)]
    steps.close()
    assert held == [config.data.train_batch_size] * 2


@pytest.mark.slow
@pytest.mark.parametrize("version", ["v3.0", "v2.1"])
def test_the_five_commands_train_two_packed_steps(tmp_path, monkeypatch, version):
    prepare(tmp_path, version)
    monkeypatch.chdir(tmp_path)
    assert train.main(run_all_but_training()) == 0
    rows = [json.loads(line) for line in (tmp_path / "runs/my_robot/metrics.jsonl").read_text().splitlines()]
    losses = [row["loss"] for row in rows if row["phase"] == "train"]
    assert len(losses) == 2
    assert np.isfinite(losses).all()


def test_the_encoder_is_one():
    example = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)[0]
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
