"""Sources and stores in object storage, emulated in memory under `s3://`."""

from pathlib import Path

import fsspec
import numpy as np
import pytest
from etils import epath
from fsspec.implementations.memory import MemoryFileSystem

from tests.data.conversion.commands import run
from tests.data.conversion.robots import record, write_lerobot
from tests.data.conversion.sidecars import payload, write_repository
from wam_jax.data import convert
from wam_jax.data.conversion import publish
from wam_jax.data.inspection.verify import find_problems
from wam_jax.data.storage.store import MANIFEST, open_store
from wam_jax.errors import InputError

ROBOTS = [record(number) for number in range(2)]
MEANS = ("--encoder", "tests.data.conversion.commands:MeanEncoder", "--payload", "safetensors")


class _Bucket(MemoryFileSystem):
    protocol = ("s3",)
    store: dict = {}  # noqa: RUF012 - that of the class it takes the place of is shared as well.
    pseudo_dirs = [""]  # noqa: RUF012

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return super()._strip_protocol(str(path).removeprefix("s3://"))


@pytest.fixture
def bucket():
    fsspec.register_implementation("s3", _Bucket, clobber=True)
    _Bucket.store.clear()
    yield epath.Path("s3://bucket")
    _Bucket.store.clear()


def upload(directory: Path, target: epath.Path) -> epath.Path:
    for file in directory.rglob("*"):
        if file.is_file():
            target.joinpath(*file.relative_to(directory).parts).write_bytes(file.read_bytes())
    return target


@pytest.mark.parametrize("version", ["v3.0", "v2.1"])
def test_a_remote_dataset_gives_the_same_store(tmp_path, bucket, version):
    local = write_lerobot(tmp_path / "robots", ROBOTS, version=version)
    remote = upload(local, bucket / "robots")
    for source, name in ((local, "here"), (remote, "there")):
        assert run(source, tmp_path / name, *MEANS)[0] == 0
    here, there = open_store(tmp_path / "here"), open_store(tmp_path / "there")
    assert here.fingerprint == there.fingerprint
    assert not list(tmp_path.glob(".*"))


def test_remote_side_cars(tmp_path, bucket):
    robot = record(0, raw_frames=17)
    remote = upload(write_repository(tmp_path / "libero", [robot], [payload(0, 5)]), bucket / "libero")
    assert run(remote, tmp_path / "store")[0] == 0
    np.testing.assert_array_equal(open_store(tmp_path / "store").read(0)["state"], robot.states)


def test_a_store_is_written_there_and_read_there(tmp_path, bucket):
    source = write_lerobot(tmp_path / "robots", ROBOTS)
    target, flags = bucket / "stores" / "robots", (*MEANS, "--work-dir", tmp_path / "work")
    assert run(source, tmp_path / "local", *MEANS)[0] == 0

    assert convert.main([str(item) for item in (source, target, *flags)]) == 0
    store = open_store(target)
    assert store.fingerprint == open_store(tmp_path / "local").fingerprint
    assert list(find_problems(store, payloads=True)) == []
    assert list((tmp_path / "work").iterdir()) == []
    with pytest.raises(InputError, match="exists already"):
        convert.main([str(item) for item in (source, target, *flags)])


def test_an_upload_that_broke_off_looks_incomplete_and_goes_on(tmp_path, bucket, monkeypatch):

    source = write_lerobot(tmp_path / "robots", ROBOTS)
    target = bucket / "store"
    words = [str(item) for item in (source, target, *MEANS, "--work-dir", tmp_path / "work")]

    def breaks_off(data, out, **_):
        if "episodes/000001" in data.name:
            raise KeyboardInterrupt
        out.write(data.read())

    with monkeypatch.context() as patch:
        patch.setattr(publish.shutil, "copyfileobj", breaks_off)
        with pytest.raises(KeyboardInterrupt):
            convert.main(words)
    assert target.joinpath("episodes/000000.safetensors").exists()
    assert not target.joinpath(MANIFEST).exists()
    assert convert.main(words) == 0
    assert list(find_problems(open_store(target), payloads=True)) == []


def test_unfinished_work_needs_a_local_place(tmp_path, bucket):
    source = write_lerobot(tmp_path / "robots", ROBOTS[:1])
    with pytest.raises(InputError, match="--work-dir = None"):
        convert.main([str(item) for item in (source, bucket / "store", *MEANS)])
