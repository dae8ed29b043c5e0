"""Plain folders of `.npz` and `.safetensors`."""

import json
import zipfile

import numpy as np
import pytest
import safetensors.numpy

from tests.data.conversion.commands import MEANS, codec_file, run, small_codec, write_npz
from tests.data.conversion.robots import record
from wam_jax.data.conversion.arrays import read_npz, read_safetensors
from wam_jax.data.encoders.codec import pad_frames
from wam_jax.data.storage.store import open_store
from wam_jax.errors import InputError

ROBOT = record(1)


def write_frames(folder, names=("a.npz", "b/c.npz"), **changes):
    for name in names:
        folder.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        arrays = {"frames": ROBOT.frames, "actions": ROBOT.actions, "states": ROBOT.states} | changes
        write_npz(folder / name, {key: value for key, value in arrays.items() if value is not None})
    return folder


@pytest.mark.parametrize("rows", [0, 1])
def test_frames_actions_and_states(tmp_path, rows):
    folder = write_frames(tmp_path / "lab", actions=ROBOT.actions[: len(ROBOT.actions) - rows])
    assert run(folder, tmp_path / "store", "--encoder", f"codec:{codec_file(tmp_path)}")[0] == 0
    store, R = open_store(tmp_path / "store"), len(ROBOT.frames)
    arrays = store.read(1)
    assert store.index.ids.tolist() == ["lab/a", "lab/b/c"]
    wanted = small_codec().encode(pad_frames(ROBOT.frames)).astype(np.float16)
    np.testing.assert_array_equal(arrays["video_latents"], wanted)
    np.testing.assert_array_equal(arrays["actions"][4 : 4 + R - 1], ROBOT.actions[:-1])
    np.testing.assert_array_equal(arrays["state"][:R], ROBOT.states)


def test_what_is_said_of_the_episodes(tmp_path):
    folder = write_frames(tmp_path / "lab")
    about = {
        "file": "b/c.npz",
        "id": "c",
        "task": "wipe",
        "instruction": "wipe it",
        "fps": 5,
        "split": "val",
        "source": "x",
    }
    folder.joinpath("episodes.jsonl").write_text(json.dumps(about) + "\n")
    flags = ["--encoder", "tests.data.conversion.commands:MeanEncoder", "--val-fraction", 0]
    assert run(folder, tmp_path / "store", *flags)[0] == 0
    store = open_store(tmp_path / "store")
    index = store.index
    assert [column[1] for column in (index.ids, index.tasks, index.instructions, index.splits, index.sources)] == [
        "c", "wipe", "wipe it", "val", "x",
    ]  # fmt: skip
    assert (index.fps.tolist(), index.splits[0]) == ([10.0, 5.0], "train")
    assert store.manifest.encoder == MEANS
    assert "condition_latents" not in store.read(0)


def test_latents_of_a_users_own(tmp_path):
    folder = tmp_path / "lab"
    folder.mkdir()
    rng = np.random.default_rng(0)
    arrays = {"video_latents": rng.normal(size=(4, 3, 2, 2)), "actions": rng.normal(size=(6, 2))}
    arrays = {name: array.astype(np.float32) for name, array in arrays.items()}
    safetensors.numpy.save_file(arrays, str(folder / "x.safetensors"))
    about = {
        "name": "own",
        "kind": "vae",
        "spatial_stride": 8,
        "temporal_stride": 4,
        "channels": 4,
        "normaliser": "none",
    }
    tmp_path.joinpath("own.json").write_text(json.dumps(about))
    flags = ["--latents-record", tmp_path / "own.json", "--actions-per-frame", 3, "--state-key", "none"]
    assert run(folder, tmp_path / "store", *flags)[0] == 0
    store = open_store(tmp_path / "store")
    found = store.read(0)
    np.testing.assert_array_equal(found["video_latents"], arrays["video_latents"].astype(np.float16))
    np.testing.assert_array_equal(found["actions"][3:], arrays["actions"])
    assert store.manifest.encoder.name == "own"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"actions": None}, "actions = None: is missing"),
        ({"actions": ROBOT.actions[:5]}, "one a frame, or one less"),
        ({"frames": ROBOT.frames.astype(np.float32)}, "uint8 RGB"),
        ({"frames": ROBOT.frames[..., 0]}, "uint8 RGB"),
        ({"states": np.array(["x"])}, "numbers"),
        ({"states": ROBOT.states[:4]}, "one a frame, or one less"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path, changes, said):
    folder = write_frames(tmp_path / "lab", ("a.npz",), **changes)
    write_frames(folder, ("b.npz",))
    code, report = run(folder, tmp_path / "store", "--encoder", "tests.data.conversion.commands:MeanEncoder")
    assert (code, len(report["skipped"])) == (1, 1)
    assert said in report["skipped"][0]["reason"]


def test_objects_are_not_unpickled(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.array([{1: 2}], object))
    with pytest.raises(InputError, match="objects are not read"):
        read_npz(tmp_path / "a.npz")


def test_sizes_are_compared_before_reading(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros(1000, np.float32))
    with zipfile.ZipFile(tmp_path / "a.npz") as archive:
        data = archive.read("x.npy").replace(b"(1000,)", b"(9999,)")
    with zipfile.ZipFile(tmp_path / "b.npz", "w") as archive:
        archive.writestr("x.npy", data)
    with pytest.raises(InputError, match="4000 bytes are there"):
        read_npz(tmp_path / "b.npz")


@pytest.mark.parametrize("reader", [read_npz, read_safetensors])
def test_damaged_files_are_refused(tmp_path, reader):
    path = tmp_path / "x"
    path.write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(InputError):
        reader(path)


def test_lines_about_files_that_are_not_there_are_refused(tmp_path):
    folder = write_frames(tmp_path / "lab")
    folder.joinpath("episodes.jsonl").write_text('{"file": "z.npz"}\n')
    with pytest.raises(InputError, match=r"file = 'z\.npz'"):
        run(folder, tmp_path / "store", "--encoder", "stand-in")
