"""LeRobot datasets of both layouts: what comes out is what went in."""

import numpy as np
import pytest

from tests.data.conversion.commands import PATCH, codec_file, run, small_codec
from tests.data.conversion.robots import CAMERA, FPS, SIDE, record, seen, write_lerobot
from wam_jax.data.encoders.codec import codec_of, pad_frames, psnr
from wam_jax.data.inspection.verify import find_problems
from wam_jax.data.recording.encode import encode_recording
from wam_jax.data.recording.rollout import Recording
from wam_jax.data.storage.splits import split_episodes
from wam_jax.data.storage.store import open_store

ROBOTS = [record(number) for number in range(4)]
SPLITS = {"train": "0:3", "validation": "3:4"}


@pytest.fixture(scope="module", params=["v3.0", "v2.1"])
def converted(request, tmp_path_factory):
    root = tmp_path_factory.mktemp(request.param)
    source = write_lerobot(root / "robots", ROBOTS, version=request.param, splits=SPLITS)
    code, report = run(source, root / "store", "--encoder", f"codec:{codec_file(root)}")
    assert (code, report["state"], report["skipped"]) == (0, "complete", [])
    return open_store(root / "store")


def test_actions_and_states_are_the_recorded_ones(converted):
    for number, robot in enumerate(ROBOTS):
        arrays, R = converted.read(number), len(robot.frames)
        np.testing.assert_array_equal(arrays["actions"][4 : 4 + R - 1], robot.actions[:-1])
        np.testing.assert_array_equal(arrays["state"][:R], robot.states)
        assert arrays["action_mask"].sum() == 2 * (R - 1)


def test_lengths_texts_and_splits_are_the_recorded_ones(converted):
    assert converted.index.extents["video_latents"].tolist() == [
        1 + -(-(len(robot.frames) - 1) // 4) for robot in ROBOTS
    ]
    assert converted.index.instructions.tolist() == [robot.sentence for robot in ROBOTS]
    assert converted.index.ids.tolist() == [f"robots-{number:06d}" for number in range(4)]
    assert set(converted.index.fps) == {FPS}
    assert split_episodes(converted.index, "val").tolist() == [3]


def test_an_episode_is_that_of_the_recorder_within_the_codec_and_the_video(converted):
    robot, codec = ROBOTS[2], codec_of(converted)
    assert codec is not None
    own = encode_recording(Recording("task", 0, robot.frames, robot.actions[:-1], robot.states), codec, anchored=True)
    found = converted.read(2)
    assert own.keys() == found.keys()
    for name in own.keys() - {"video_latents", "condition_latents"}:
        np.testing.assert_array_equal(own[name], found[name], err_msg=name)
    for name in ("video_latents", "condition_latents"):
        assert np.abs(own[name] - found[name].astype(np.float32)).max() < 0.1 * own[name].std(), name
    assert psnr(codec.decode(found["video_latents"]), codec.decode(own["video_latents"])).min() > 30


def test_the_store_is_sound(converted):
    assert list(find_problems(converted, payloads=True)) == []


def test_two_cameras_stand_side_by_side(tmp_path):
    cameras = ("left", "right")
    source = write_lerobot(tmp_path / "robots", ROBOTS[:1], cameras=cameras, kind="image")
    choice = ["--encoder", f"codec:{codec_file(tmp_path)}", "--camera", "left", "--camera", "right"]
    assert run(source, tmp_path / "store", *choice)[0] == 0
    wide = np.concatenate([seen(ROBOTS[0], camera) for camera in range(2)], axis=2)
    wanted = small_codec().encode(pad_frames(wide)).astype(np.float16)
    np.testing.assert_array_equal(open_store(tmp_path / "store").read(0)["video_latents"], wanted)


def test_a_rectangle_scales_a_camera(tmp_path):
    source = write_lerobot(tmp_path / "robots", ROBOTS[:1], kind="image")
    choice = ["--encoder", f"codec:{codec_file(tmp_path)}", "--camera", f"{CAMERA}@0,16,16,16"]
    assert run(source, tmp_path / "store", *choice)[0] == 0
    latents = open_store(tmp_path / "store").read(0)["video_latents"]
    assert latents.shape[2:] == (16 // PATCH, 32 // PATCH)
    black = small_codec().encode(np.zeros((1, SIDE, SIDE, 3), np.uint8))[:, 0, 0, 0].astype(np.float16)
    np.testing.assert_array_equal(latents[:, 0, 0, 0], black)
    assert np.abs(latents[:, 0, 0, 2] - black).max() > 0.1


def test_every_second_frame_keeps_every_action(tmp_path):
    source = write_lerobot(tmp_path / "robots", ROBOTS[3:])
    choice = ["--encoder", f"codec:{codec_file(tmp_path)}", "--frame-stride", "2"]
    assert run(source, tmp_path / "store", *choice)[0] == 0
    store, robot = open_store(tmp_path / "store"), ROBOTS[3]
    arrays = store.read(0)
    assert (store.manifest.actions_per_frame, store.index.fps[0]) == (8, FPS / 2)
    np.testing.assert_array_equal(arrays["actions"][8 : 8 + 16], robot.actions[:16])
    np.testing.assert_array_equal(arrays["state"][:9], robot.states[::2])


def test_which_camera_has_to_be_said(tmp_path):
    from wam_jax.errors import InputError

    source = write_lerobot(tmp_path / "robots", ROBOTS[:1], cameras=("left", "right"), kind="image")
    with pytest.raises(InputError, match=r"--camera = None: which of left, right\?"):
        run(source, tmp_path / "store", "--encoder", "stand-in")
