"""From a config file and a command line to a frozen configuration, and every way in which that fails."""

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from wam_jax.config import default_config, load, names
from wam_jax.config.convert import to_config
from wam_jax.errors import InputError

File = Callable[..., str]


def refused(path: str, *arguments: str) -> str:
    with pytest.raises(InputError) as error:
        load(path, arguments)
    return str(error.value)


def test_fields_that_are_not_set_keep_their_defaults(config_file: File) -> None:
    config = load(config_file("config.data.train_batch_size = 8")).config
    assert config.data.train_batch_size == 8
    assert config.data.val_batch_size == 1
    assert config.backbone.ffn_dim is None


def test_the_configuration_is_frozen(config_file: File) -> None:
    config = load(config_file()).config
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.seed = 3  # ty: ignore[invalid-assignment]


def test_default_config_has_every_field_of_the_schema() -> None:
    config = default_config()
    for name in names.schema():
        *rooms, field = name.split(".")
        assert field in functools.reduce(getattr, rooms, config), name


def test_overrides_win_over_the_file_and_are_reported(config_file: File) -> None:
    path = config_file("config.training.optimizer.max_grad_norm = 2.0", "config.backbone.ffn_dim = 4")
    words = ("--config.training.optimizer.max_grad_norm=none", "--config.seed", "3", "--config.seed=4")
    loaded = load(path, words)
    assert loaded.config.training.optimizer.max_grad_norm is None
    assert loaded.config.seed == 4
    assert loaded.overrides == {"training.optimizer.max_grad_norm": None, "seed": 4}


def test_a_file_may_take_an_argument(config_file: File) -> None:
    assert load(config_file() + ":-large").config.name == "tiny-large"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("config.data.train_batch = 2", "data.train_batch = 2: no such field; did you mean data.train_batch_size?"),
        ("config.program = 'joint'", "program = 'joint': no such field; did you mean policy.program?"),
        ("config.policy.program = None", "policy.program = None: is required and not set; one of 'video_then_action'"),
        ("config.data.prefetch = '4'", "data.prefetch = '4': must be an integer"),
        ("config.data.train_batch_size = True", "data.train_batch_size = True: must be an integer"),
        ("config.data.batching.drop_last_train = 1", "data.batching.drop_last_train = 1: must be true or false"),
        ("config.backbone.remat = 'all'", "must be one of 'none', 'block', 'save_attention'"),
        ("config.data.batching = 3", "data.batching = 3: must be a group of fields: mode, bucket_pool_size"),
        ("del config['training']", "training = None: is required and not set; its fields are num_steps"),
    ],
)
def test_wrong_fields_of_a_file_are_named(config_file: File, line: str, message: str) -> None:
    assert message in refused(config_file(line))


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--config.policy.progam=x", "--config.policy.progam = 'x': no such field; did you mean policy.program?"),
        ("--config.lr=1", "no such field; a run has name, data"),
        ("--config.policy=joint", "is a group; set one of its fields: program"),
        ("--config.seed=1.5", "--config.seed = 1.5: must be an integer"),
        ("--config.seed", "needs a value"),
        ("--resume", "no such option"),
    ],
)
def test_wrong_overrides_are_named(config_file: File, argument: str, message: str) -> None:
    assert message in refused(config_file(), argument)


def test_an_override_cannot_hide_a_group_that_the_file_broke(config_file: File) -> None:
    assert "data = 3: must be a group" in refused(config_file("config.data = 3"), "--config.data.prefetch=2")


def test_errors_of_the_file_are_said_with_their_line(config_file: File) -> None:
    path = config_file("config.trainng.num_steps = 3")
    line = 1 + Path(path).read_text().splitlines().index("    config.trainng.num_steps = 3")
    message = refused(path)
    assert message.startswith(f"{path}:{line} = ")
    assert message.endswith("did you mean training?")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def get_config(:", ":1 = "),
        ("x = 1", "KeyError"),
        ("import math\nget_config = lambda: math.trainng", "no attribute 'trainng'\": correct the file"),
        ("get_config = lambda: 3", "return an ml_collections Config"),
    ],
)
def test_files_that_are_no_config_files(config_file: File, text: str, message: str) -> None:
    path = Path(config_file())
    path.write_text(text)
    assert message in refused(str(path))


def test_a_missing_file_is_named(config_file: File) -> None:
    assert "no such file" in refused(config_file() + "x")


def test_conversion_keeps_tuples_and_reads_lists_as_tuples() -> None:
    source = default_config()
    source.update({"name": "n", "data": {"store": "s"}, "policy": {"program": "joint"}, "training": {"num_steps": 1}})
    source.trainer.mesh = [2, 1]
    assert to_config(source).trainer.mesh == (2, 1)
