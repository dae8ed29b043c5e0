"""What is saved is what is restored; what is damaged or does not fit is said."""

import contextlib
import dataclasses
import os
import re
import resource
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest

from tests.training.rigs import OPTIMIZER, TRAINING, Rig, make_rig
from wam_jax.cli import RunError
from wam_jax.errors import InputError
from wam_jax.training import checkpoint
from wam_jax.training.checkpoint import CheckpointWriter, read_meta, restore_params, restore_state
from wam_jax.training.locate import CheckpointRef, durable_steps
from wam_jax.training.state import TrainState

AVERAGED = dataclasses.replace(TRAINING, optimizer=dataclasses.replace(OPTIMIZER, ema_decay=0.9))


@pytest.fixture(scope="module")
def rig() -> Rig:
    return make_rig(config=AVERAGED)


@pytest.fixture
def state(rig: Rig) -> TrainState:
    return rig.fresh(1)


def save(directory: Path, state: TrainState, *steps: int, keep: int = 3) -> CheckpointRef:
    with CheckpointWriter(directory, keep=keep) as writer:
        for step in steps:
            writer.save(step, state, {"step": step, "note": "kept"})
    return CheckpointRef(directory, steps[-1], "--resume-from")


def test_a_state_comes_back_bitwise_and_in_its_shards(tmp_path: Path, rig: Rig, state: TrainState) -> None:
    back = restore_state(save(tmp_path, state, 4), rig.abstract)
    jax.tree.map(np.testing.assert_array_equal, back, state)
    assert jax.tree.map(lambda leaf: leaf.sharding, back) == jax.tree.map(lambda leaf: leaf.sharding, state)


def test_a_checkpoint_says_what_the_run_is(tmp_path: Path, state: TrainState) -> None:
    meta = read_meta(save(tmp_path, state, 4))
    assert (meta["step"], meta["note"]) == (4, "kept")


def test_the_newest_are_kept_and_a_step_is_saved_once(tmp_path: Path, state: TrainState) -> None:
    save(tmp_path, state, 0, 4, 8, 8, 12, keep=2)
    assert durable_steps(tmp_path) == [8, 12]


def with_a_large_kernel(state: TrainState) -> TrainState:
    """With parameters that no compression makes small: 16 kB."""
    large = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    return dataclasses.replace(state, params={"kernel": jax.device_put(large, state.step.sharding)})


@contextlib.contextmanager
def files_no_larger_than(size: int) -> Generator[None]:
    """Writes beyond fail, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("noticed", ["save", "wait", "close"])
def test_a_checkpoint_that_cannot_be_written_is_one_line(
    tmp_path: Path, state: TrainState, noticed: str, *, kept: bool
) -> None:
    writer, state = CheckpointWriter(tmp_path / "checkpoints", keep=3), with_a_large_kernel(state)
    if kept:
        writer.save(0, state, {})
        writer.wait()
    notices = {"save": lambda: writer.save(8, state, {}), "wait": writer.wait, "close": writer.close}
    with files_no_larger_than(10_000):
        writer.save(4, state, {})
        with pytest.raises(RunError) as error:
            notices[noticed]()
    writer.close()
    way = "the newest complete one is of step 0" if kept else "there is no complete one"
    remedy = f"then --resume-from {tmp_path}" if kept else "then start again"
    reason = r"File too large \[os_error_code='27'\]|File too large"
    assert re.fullmatch(
        rf"the checkpoint of step 4 cannot be written \(({reason})\); {way}; make room, {remedy}", str(error.value)
    )


def test_a_defect_while_writing_is_not_taken_for_a_full_disk(
    tmp_path: Path, state: TrainState, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("no sharding")

    with CheckpointWriter(tmp_path, keep=3) as writer:
        monkeypatch.setattr(ocp.CheckpointManager, "save", fail)
        with pytest.raises(ValueError, match="no sharding"):
            writer.save(4, state, {})


def test_parameters_alone_come_back(tmp_path: Path, rig: Rig, state: TrainState) -> None:
    params = restore_params(save(tmp_path, state, 4), rig.abstract.params)
    jax.tree.map(np.testing.assert_array_equal, params, state.params)


def test_parameters_are_cast_to_the_dtype_that_is_wanted(tmp_path: Path, rig: Rig, state: TrainState) -> None:
    wanted = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, jax.numpy.bfloat16, sharding=leaf.sharding), rig.abstract.params
    )
    params = restore_params(save(tmp_path, state, 4), wanted)
    np.testing.assert_array_equal(params["head"]["kernel"], state.params["head"]["kernel"].astype(jax.numpy.bfloat16))


def files(path: Path) -> list[Path]:
    return [file for file in path.rglob("*") if file.is_file()]


def truncate(path: Path) -> None:
    for file in files(path / "optimizer"):
        if file.parent.name == "d":
            os.truncate(file, file.stat().st_size // 2)


def remove(path: Path) -> None:
    for file in files(path / "params"):
        file.unlink()


def empty(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.mkdir()


@pytest.mark.parametrize("damage", [truncate, remove, empty])
def test_a_damaged_checkpoint_is_said_and_the_one_before_is_offered(
    tmp_path: Path, rig: Rig, state: TrainState, damage: Callable[[Path], None]
) -> None:
    ref = save(tmp_path, state, 4, 8)
    damage(ref.path)
    with pytest.raises(InputError) as error:
        restore_state(ref, rig.abstract)
    assert "this checkpoint is damaged" in str(error.value)
    assert str(error.value).endswith(f"--resume-from {tmp_path / '4'}")


def fails(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(ocp.CheckpointManager, "restore", fail)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        ConnectionResetError("peer"),
        TimeoutError("peer"),
        jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes."),
        jax.errors.JaxRuntimeError("UNAVAILABLE: process 1 is gone"),
        ValueError("RESOURCE_EXHAUSTED: too many requests"),
        ValueError("UNAVAILABLE: bucket"),
    ],
)
def test_what_says_nothing_of_the_files_is_no_damage(
    tmp_path: Path, rig: Rig, state: TrainState, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    ref = save(tmp_path, state, 4)
    fails(monkeypatch, error)
    with pytest.raises(type(error)) as raised:
        restore_state(ref, rig.abstract)
    assert raised.value is error


@pytest.mark.parametrize("error", [PermissionError(13, "denied", "d/1"), ValueError("PERMISSION_DENIED: d/1")])
def test_files_of_others_are_no_damage(
    tmp_path: Path, state: TrainState, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    ref = save(tmp_path, state, 4)
    fails(monkeypatch, error)
    with pytest.raises(InputError, match=r"this checkpoint cannot be read \(.*d/1") as said:
        read_meta(ref)
    assert "damaged" not in str(said.value)


def test_a_newer_format_is_said_to_be_one(tmp_path: Path, state: TrainState, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as newer:
        newer.setattr(checkpoint, "FORMAT", 2)
        ref = save(tmp_path, state, 4)
        assert read_meta(ref)["format"] == 2
    with pytest.raises(InputError, match="is of format 2, and this version reads 1; use the version that wrote it"):
        read_meta(ref)


def test_reads_that_end_after_the_failed_one_are_not_reported(
    tmp_path: Path, rig: Rig, state: TrainState, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[Any] = []

    def fail(*_: object, **__: object) -> None:
        for reason in ("Event loop is closed", "another defect"):
            sys.unraisablehook(SimpleNamespace(exc_value=RuntimeError(reason)))
        raise ValueError("cannot be read")

    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: said.append(str(unraisable.exc_value)))
    ref = save(tmp_path, state, 4)
    monkeypatch.setattr(ocp.CheckpointManager, "restore", fail)
    with pytest.raises(InputError, match="cannot be read"):
        restore_state(ref, rig.abstract)
    assert said == ["another defect"]


def test_a_flipped_bit_is_found(tmp_path: Path, state: TrainState) -> None:
    state = with_a_large_kernel(state)
    ref = save(tmp_path, state, 4)
    file = max(files(ref.path / "params"), key=lambda file: file.stat().st_size)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    abstract = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding), state)
    with pytest.raises(InputError, match="the values of params differ from their checksums"):
        restore_state(ref, abstract)


def changed(rig: Rig, **leaves: Any) -> Any:
    head = rig.abstract.params["head"] | leaves
    return rig.abstract.params | {"head": {name: leaf for name, leaf in head.items() if leaf is not None}}


def test_parameters_that_do_not_fit_are_named_and_counted(tmp_path: Path, rig: Rig, state: TrainState) -> None:
    ref, kernel = save(tmp_path, state, 4), rig.abstract.params["head"]["kernel"]
    wide = jax.ShapeDtypeStruct((9, 1), kernel.dtype, sharding=kernel.sharding)
    for params, message in (
        (changed(rig, scale=kernel), r"fits 4 of 5 parameters: 1 missing \(head/scale\)"),
        (changed(rig, bias=None), r"fits 3 of 3 parameters: 1 unknown \(head/bias\)"),
        (changed(rig, kernel=wide), r"fits 3 of 4 .* of another shape \(head/kernel \(4, 1\), not \(9, 1\)\)"),
    ):
        with pytest.raises(InputError, match=message):
            restore_params(ref, params)


def test_a_moving_average_is_neither_made_up_nor_dropped(tmp_path: Path, rig: Rig, state: TrainState) -> None:
    plain = make_rig()
    with pytest.raises(InputError, match=r"training\.optimizer\.ema_decay = None: the run of .* had it otherwise"):
        restore_state(save(tmp_path / "a", state, 4), plain.abstract)
    with pytest.raises(InputError, match=r"training\.optimizer\.ema_decay = 'a decay'"):
        restore_state(save(tmp_path / "b", plain.fresh(), 4), rig.abstract)
