"""The recorder: which seeds it keeps, what it writes, what it refuses before simulating anything."""

import importlib
import importlib.util

import numpy as np
import pytest

from tests.data.recordings import branch_noise, record_noise
from wam_jax.data import record
from wam_jax.data.encoders.codec import codec_from_bytes, pad_frames
from wam_jax.data.inspection.verify import find_problems
from wam_jax.data.recording import camera, encode, provenance, simulator
from wam_jax.data.recording.branches import record_all_branches
from wam_jax.data.recording.rollout import record_episode
from wam_jax.data.recording.schedule import Request, last_of_each_task, record_all
from wam_jax.data.recording.tasks import DEFAULT_TASKS, instruction_of
from wam_jax.data.storage.store import CODEC, open_store
from wam_jax.errors import InputError

# Not by importing it: MuJoCo chooses its renderer then, and only the recorder asks for a headless one.
needs_simulator = pytest.mark.skipif(importlib.util.find_spec("metaworld") is None, reason="needs the extra `sim`")
REQUEST = Request(tasks=("stick-pull", "drawer-open"), episodes=3, first_seed=0, size=4, tail=2)


def schedule(tmp_path, request=REQUEST):
    seen = []
    return record_all(request, tmp_path, workers=2, on_episode=seen.append, record=record_noise), seen


def successful(record_one, *arguments):
    recording = record_one(*arguments)
    assert recording is not None
    return recording


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    return schedule(tmp_path_factory.mktemp("spool"))


@pytest.fixture
def noise(monkeypatch):
    """The command with noise in the place of the simulator."""
    monkeypatch.setattr(record, "known_tasks", lambda: ("drawer-open", "reach", "stick-pull"))
    monkeypatch.setattr(
        record,
        "record_all",
        lambda request, spool, **options: record_all(request, spool, **options, record=record_noise),
    )
    monkeypatch.setattr(
        record,
        "record_all_branches",
        lambda *request, **options: record_all_branches(*request, **options, record=branch_noise),
    )
    monkeypatch.setattr(provenance, "version", lambda package: f"{package} 1.0")


def command(out, *more):
    size = ["--size", "4", "--patch", "2", "--channels", "6", "--workers", "1", "--episodes-per-task", "2"]
    return record.main(["--out", str(out), "--tasks", "reach", "stick-pull", *size, *more])


def test_failed_seeds_are_replaced_by_the_next_ones(recordings):
    found, seen = recordings
    assert [(item.task, item.seed) for item in found] == [
        *(("stick-pull", seed) for seed in (0, 3, 4)),
        *(("drawer-open", seed) for seed in (0, 1, 2)),
    ]
    assert sorted(item.path for item in seen) == sorted(item.path for item in found)


def test_the_highest_seed_of_each_task_validates(recordings):
    chosen = last_of_each_task(recordings[0])
    assert sorted((item.task, item.seed) for item in chosen) == [("drawer-open", 2), ("stick-pull", 4)]


def test_recordings_wait_on_disk_unchanged(recordings):
    item = recordings[0][1]
    found, wanted = item.load(), successful(record_noise, "stick-pull", 3, 4, 2)
    assert item.raw_frames == len(wanted.frames)
    assert (found.task, found.seed) == ("stick-pull", 3)
    for name in ("frames", "actions", "states"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))


def test_a_task_whose_expert_always_fails_is_refused(tmp_path):
    with pytest.raises(InputError, match="tasks = 'hopeless': the expert failed on too many of 5 seeds"):
        schedule(tmp_path, Request(tasks=("hopeless",), episodes=1, first_seed=0, size=4, tail=2))


@pytest.mark.usefixtures("noise")
def test_the_command_writes_a_sound_store(tmp_path, capsys):
    assert command(tmp_path / "s", "--compression", "zstd:3") == 0
    store = open_store(tmp_path / "s")
    assert list(find_problems(store, payloads=True)) == []
    assert store.index.ids.tolist() == ["reach-000000", "reach-000001", "stick-pull-000000", "stick-pull-000003"]
    assert store.index.splits.tolist() == ["train", "val"] * 2
    assert store.index.instructions[3] == "grasp the stick and drag the box with it"
    assert store.manifest.provenance["seeds"] == {"reach": [0, 1], "stick-pull": [0, 3]}
    assert "reconstruction of klt-p2c6: train" in capsys.readouterr().out


@pytest.mark.usefixtures("noise")
def test_samples_are_the_coded_recordings(tmp_path):
    command(tmp_path / "s")
    store, wanted = open_store(tmp_path / "s"), successful(record_noise, "stick-pull", 3, 4, 4)
    codec = codec_from_bytes((tmp_path / "s" / CODEC).read_bytes(), source="codec")
    arrays = store.read(3)
    padded = pad_frames(wanted.frames)
    np.testing.assert_array_equal(arrays["video_latents"], codec.encode(padded).astype(np.float16))
    np.testing.assert_array_equal(arrays["condition_latents"], codec.encode_frame(padded[::4]).astype(np.float16))
    np.testing.assert_array_equal(arrays["actions"][4 : 4 + len(wanted.actions)], wanted.actions)
    np.testing.assert_array_equal(arrays["state"][: len(wanted.states)], wanted.states)


@pytest.mark.usefixtures("noise")
def test_a_given_codec_is_used_and_the_same_arguments_give_the_same_data(tmp_path):
    command(tmp_path / "a")
    command(tmp_path / "b", "--codec", str(tmp_path / "a" / CODEC), "--payload", "safetensors")
    assert open_store(tmp_path / "a").fingerprint == open_store(tmp_path / "b").fingerprint


@pytest.mark.usefixtures("noise")
def test_branches_follow_the_demonstrations_and_change_none(tmp_path):
    command(tmp_path / "a")
    command(tmp_path / "b", "--codec", str(tmp_path / "a" / CODEC), "--branches", "2", "1", "--branch-steps", "6")
    plain, branched = open_store(tmp_path / "a"), open_store(tmp_path / "b")
    assert list(find_problems(branched, payloads=True)) == []
    assert branched.index.sources.tolist() == ["metaworld"] * 4 + ["counterfactual_dynamics"] * 6
    for number in range(4):
        assert branched.index.ids[number] == plain.index.ids[number]
        assert {k: v.tobytes() for k, v in branched.read(number).items()} == {
            k: v.tobytes() for k, v in plain.read(number).items()
        }


@pytest.mark.usefixtures("noise")
def test_a_branch_has_the_split_the_text_and_the_moment_of_its_parent(tmp_path):
    command(tmp_path / "s", "--branches", "1", "1", "--branch-steps", "6")
    store = open_store(tmp_path / "s")
    told, row = store.manifest.provenance["branches"]["episodes"], {name: i for i, name in enumerate(store.index.ids)}
    assert sorted(told) == sorted(store.index.ids[4:])
    for branch, (parent, start) in told.items():
        own, whole = store.read(row[branch]), store.read(row[parent])
        for column in ("tasks", "instructions", "splits"):
            assert getattr(store.index, column)[row[branch]] == getattr(store.index, column)[row[parent]]
        np.testing.assert_array_equal(own["video_latents"][:, 0], whole["condition_latents"][:, start // 4])
        np.testing.assert_array_equal(own["state"][0], whole["state"][start])
        assert own["video_latents"].shape[1] == 3
        assert "condition_latents" not in own


@pytest.mark.usefixtures("noise")
@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--tasks", "fly"], "--tasks = 'fly': one of drawer-open, reach"),
        (["--episodes-per-task", "1"], "--episodes-per-task = 1: at least 2"),
        (["--size", "5"], "--size = 5: a multiple of the codec's patch, 2"),
        (["--workers", "0"], "--workers = 0: at least 1"),
        (["--branches", "1", "-1"], r"--branches = \[1, -1\]: two numbers"),
        (["--branch-steps", "0"], "--branch-steps = 0: 1 to 500"),
        (["--branch-strength", "0"], "--branch-strength = 0.0: above 0"),
        (["--codec", "nowhere"], "--codec = 'nowhere'"),
    ],
)
def test_what_cannot_work_is_refused_first(tmp_path, more, message):
    with pytest.raises(InputError, match=message):
        command(tmp_path / "s", *more)


@pytest.mark.usefixtures("noise")
def test_an_existing_store_is_refused_first(tmp_path):
    with pytest.raises(InputError, match=r"--out = .*exists already"):
        command(tmp_path)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ModuleNotFoundError("no metaworld"), "extra sim = .*--extra sim"),
        (OSError("no GL"), "MUJOCO_GL = .*libosmesa6"),
    ],
)
def test_a_missing_simulator_is_an_input_error(tmp_path, monkeypatch, error, message):
    monkeypatch.setattr(importlib, "import_module", lambda _: (_ for _ in ()).throw(error))
    with pytest.raises(InputError, match=message):
        record.main(["--out", str(tmp_path / "s")])


def test_help_needs_no_simulator(capsys):
    with pytest.raises(SystemExit, match="0"):
        record.main(["--help"])
    assert "not real-robot data" in capsys.readouterr().out


def test_rounding_keeps_multiples_of_its_step():
    values = np.array([0.5, 0.3, -0.26], np.float32)
    assert encode.round_latents(values, 2).tolist() == [0.5, 0.25, -0.25]
    assert encode.round_latents(values, None) is values


def test_downsampling_rounds_means():
    image = np.array([[0, 1], [1, 0]], np.uint8)[:, :, None].repeat(3, axis=2)
    assert camera.downsample(image, 2).tolist() == [[[1, 1, 1]]]
    assert camera.downsample(np.full((4, 6, 3), 255, np.uint8), 2).shape == (2, 3, 3)


def test_every_default_task_has_two_sentences():
    assert all(len({instruction_of(task, seed) for seed in range(4)}) == 2 for task in DEFAULT_TASKS)
    assert instruction_of("lever-pull", 3) == "lever pull"


@pytest.mark.slow
@needs_simulator
def test_the_simulator_repeats_itself_and_the_packaged_data():
    first, second = (successful(record_episode, "handle-press", 1, 32, 4) for _ in range(2))
    for name in ("frames", "actions", "states"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    store = open_store("embedded:metaworld12")
    arrays = store.read(store.index.ids.tolist().index("handle-press-000001"))
    np.testing.assert_array_equal(first.actions, arrays["actions"][4 : 4 + len(first.actions)])
    np.testing.assert_array_equal(first.states, arrays["state"][: len(first.states)])


@pytest.mark.slow
@needs_simulator
def test_the_camera_does_not_jump_after_the_first_frame():
    frames = successful(record_episode, "reach", 0, 32, 0).frames.astype(int)
    assert np.abs(frames[1] - frames[0]).mean() < 2 * np.abs(frames[2] - frames[1]).mean() + 1


@pytest.mark.slow
@needs_simulator
def test_every_default_task_exists_and_has_an_expert():
    assert set(DEFAULT_TASKS) <= set(simulator.known_tasks())
    for task in simulator.known_tasks():
        assert callable(simulator.expert_of(task).get_action)
