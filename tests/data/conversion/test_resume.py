"""Conversions that were interrupted, or shared out: the same bytes."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.data.conversion.commands import codec_file, run
from tests.data.conversion.robots import record, write_lerobot
from wam_jax.data.conversion import work
from wam_jax.data.conversion.spool import open_spool, spool_of
from wam_jax.data.storage.store import open_store
from wam_jax.errors import InputError

ROBOTS = [record(number) for number in range(6)]


@pytest.fixture
def source(tmp_path):
    return write_lerobot(tmp_path / "robots", ROBOTS)


@pytest.fixture
def encoder(tmp_path):
    return ["--encoder", f"codec:{codec_file(tmp_path)}"]


def content_of(store):
    return {str(path.relative_to(store)): path.read_bytes() for path in sorted(store.rglob("*")) if path.is_file()}


def check_killed(tmp_path, source, *arguments, kills):
    words = [sys.executable, "-m", "tests.data.conversion.killed_conversions", tmp_path, kills, 0, source, *arguments]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, env=dict(os.environ), timeout=500)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    whole = content_of(tmp_path / "whole")
    assert {"store.json", "index.parquet", "codec.safetensors"} < whole.keys()
    for number in range(kills):
        assert content_of(tmp_path / f"killed-{number}") == whole, done.stdout
    assert not list(tmp_path.glob(".*"))


FITTED = ("--encoder", "stand-in", "--patch", 4, "--channels", 5, "--normalise-actions", "quantiles")


def test_killed_at_some_moments_it_goes_on_to_the_same_bytes(tmp_path):
    source = write_lerobot(tmp_path / "robots", ROBOTS[:2])
    check_killed(tmp_path, source, *FITTED, kills=4)


@pytest.mark.slow
def test_killed_at_20_moments_it_goes_on_to_the_same_bytes(tmp_path, source):
    check_killed(tmp_path, source, *FITTED, kills=20)


@pytest.mark.slow
def test_killed_at_60_moments_with_a_file_per_episode(tmp_path, source, encoder):
    check_killed(tmp_path, source, *encoder, "--payload", "safetensors", kills=60)


def test_processes_write_the_same_bytes_as_one(tmp_path, source, encoder):
    for workers in (1, 2):
        assert run(source, tmp_path / f"by-{workers}", *encoder, "--workers", workers)[0] == 0
    assert content_of(tmp_path / "by-1") == content_of(tmp_path / "by-2")


@pytest.mark.slow
def test_processes_of_a_killed_command_end_and_another_goes_on(tmp_path, source):
    words = [sys.executable, "-m", "wam_jax.data.convert", source, tmp_path / "store", *FITTED, "--workers", 2]
    command = subprocess.Popen(list(map(str, words)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    spooled = spool_of(tmp_path / "store") / "episodes"
    while not spooled.is_dir() or not list(spooled.glob("*.safetensors")):
        assert command.poll() is None
        time.sleep(0.01)
    workers = [int(pid) for pid in Path(f"/proc/{command.pid}/task/{command.pid}/children").read_text().split()]
    command.kill()
    command.wait()
    assert len(workers) >= 2
    ends = time.monotonic() + 60
    while [pid for pid in workers if _is_running(pid)]:
        assert time.monotonic() < ends
        time.sleep(0.05)
    assert run(source, tmp_path / "store", *FITTED)[0] == 0
    assert run(source, tmp_path / "whole", *FITTED)[0] == 0
    assert content_of(tmp_path / "store") == content_of(tmp_path / "whole")


def _is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_finished_episodes_are_not_converted_again(tmp_path, source, encoder, monkeypatch):
    done, finish = [], work.finish

    def stops_at_the_fourth(content, recipe, encoder, *, name):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(name)
        return finish(content, recipe, encoder, name=name)

    monkeypatch.setattr(work, "finish", stops_at_the_fourth)
    with pytest.raises(KeyboardInterrupt):
        run(source, tmp_path / "store", *encoder)
    assert not (tmp_path / "store").exists()
    monkeypatch.setattr(work, "finish", lambda *a, name: (done.append(name), finish(*a, name=name))[1])
    assert run(source, tmp_path / "store", *encoder)[0] == 0
    assert done == [f"robots-{number:06d}" for number in range(6)]


def test_going_on_under_other_options_is_refused(tmp_path, source, encoder):
    (source / "videos/observation.images.front/chunk-000/file-000.mp4").write_bytes(b"")
    assert run(source, tmp_path / "store", *encoder)[0] == 1
    with pytest.raises(InputError, match=r"differs in normalise_actions; --restart"):
        run(source, tmp_path / "store", *encoder, "--normalise-actions", "gaussian")
    assert run(source, tmp_path / "store", *encoder, "--normalise-actions", "gaussian", "--restart")[0] == 1


def test_mended_episodes_complete_the_store(tmp_path, source, encoder):
    video = source / "videos/observation.images.front/chunk-000/file-000.mp4"
    whole = video.read_bytes()
    video.write_bytes(whole[: len(whole) // 2])
    code, report = run(source, tmp_path / "store", *encoder)
    assert (code, report["state"]) == (1, "refused")
    assert not (tmp_path / "store").exists()
    video.write_bytes(whole)
    code, report = run(source, tmp_path / "store", *encoder)
    assert (code, report["skipped"]) == (0, [])
    np.testing.assert_array_equal(open_store(tmp_path / "store").read(5)["actions"][4:5], ROBOTS[5].actions[:1])


def test_two_at_a_time_are_refused(tmp_path, source, encoder):
    with (
        open_spool(spool_of(tmp_path / "store"), {}, restart=False),
        pytest.raises(InputError, match="another conversion is at work"),
    ):
        run(source, tmp_path / "store", *encoder)


def test_an_existing_store_is_left_alone(tmp_path, source, encoder):
    assert run(source, tmp_path / "store", *encoder)[0] == 0
    before = content_of(tmp_path / "store")
    with pytest.raises(InputError, match="exists already"):
        run(source, tmp_path / "store", *encoder)
    assert content_of(tmp_path / "store") == before
