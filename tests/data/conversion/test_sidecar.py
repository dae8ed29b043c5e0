"""Latent side-cars of the reference implementation: layouts, alignment, condition latents, text, refusals."""

import os
import pickle
import re

import numpy as np
import pytest

from tests.data.conversion.commands import run
from tests.data.conversion.robots import record
from tests.data.conversion.sidecars import CAMERAS, TEXT, latents_of, payload, text_of, write_repository
from tests.data.conversion.torch_files import archive, save_torch
from wam_jax.data.construction.actions import fill_first_group
from wam_jax.data.conversion.sidecar import sampled_frames
from wam_jax.data.storage.store import open_store
from wam_jax.errors import InputError

ROBOT = record(0, raw_frames=17)
T = 5


def convert_one(tmp_path, *arguments, robot=ROBOT, frames=T, **fields):
    """A repository of one window, converted; its code, report and store."""
    source = write_repository(tmp_path / "libero", [robot], [payload(0, frames, **fields)])
    code, report = run(source, tmp_path / "store", "--val-fraction", 0, *arguments)
    return code, report, open_store(tmp_path / "store") if code == 0 else None


def groups(actions):
    """First column of the actions by latent frame, as recorded rows; -1 where nothing is."""
    rows = {float(value): row for row, value in enumerate(ROBOT.actions[:, 0])}
    return [[rows.get(float(value), -1) for value in group] for group in actions[:, 0].reshape(-1, 4)]


def test_flat_and_square_latents_are_the_same(tmp_path):
    flat = convert_one(tmp_path)[2].read(0)["video_latents"]
    square = convert_one(tmp_path / "square", latent=latents_of(0, T))[2].read(0)["video_latents"]
    np.testing.assert_array_equal(flat, square)
    np.testing.assert_array_equal(flat, latents_of(0, T).transpose(3, 0, 1, 2))


def test_the_worked_example_of_alignment(tmp_path):
    store = convert_one(tmp_path)[2]
    whole = store.read(0)
    assert groups(whole["actions"]) == [[-1] * 4, [0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]]
    assert whole["action_mask"].reshape(T, -1).mean(axis=1).tolist() == [0, 1, 1, 1, 1]
    cut = store.read(0, frames=(1, 4))
    actions, mask = fill_first_group(cut["actions"], cut["action_mask"], actions_per_frame=4)
    assert groups(actions) == [[-1] * 4, [4, 5, 6, 7], [8, 9, 10, 11]]
    assert mask.reshape(3, -1).mean(axis=1).tolist() == [0, 1, 1]
    np.testing.assert_array_equal(whole["state"], ROBOT.states)
    np.testing.assert_array_equal(whole["proprio_context_frames"], ROBOT.states[::4])


def test_without_frame_ids_the_window_is_the_video(tmp_path):
    plain, absent = (
        convert_one(tmp_path / name, **fields)[2].read(0) for name, fields in (("a", {}), ("b", {"frame_ids": None}))
    )
    np.testing.assert_array_equal(plain["actions"], absent["actions"])
    np.testing.assert_array_equal(plain["state"], absent["state"])


def test_ids_of_anchors_are_the_same_video(tmp_path):
    store = convert_one(tmp_path, frame_ids=np.arange(0, 17, 4))[2]
    assert groups(store.read(0)["actions"])[1:] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]]


def test_a_window_inside_an_episode(tmp_path):
    store = convert_one(tmp_path, frames=3, frame_ids=list(range(5, 14)))[2]
    assert groups(store.read(0)["actions"]) == [[-1] * 4, [5, 6, 7, 8], [9, 10, 11, 12]]
    np.testing.assert_array_equal(store.read(0)["state"], ROBOT.states[5:14])


def test_condition_latents_of_the_anchors_are_kept(tmp_path):
    clean = latents_of(0, T, clean=True)
    code, report, store = convert_one(
        tmp_path, condition_latent=clean, condition_source_frame_offset=-1, condition_source_frame_policy="next latent"
    )
    np.testing.assert_array_equal(store.read(0)["condition_latents"], clean.transpose(3, 0, 1, 2))
    assert code == 0
    assert not [note for note in report["notes"] if "condition" in note]


@pytest.mark.parametrize("offset", [0, None])
def test_other_condition_latents_are_left_out_and_named(tmp_path, offset):
    fields = {"condition_latent": latents_of(0, T), "condition_source_frame_offset": offset}
    code, report, store = convert_one(tmp_path, **fields)
    assert "condition_latents" not in store.read(0)
    (note,) = [note for note in report["notes"] if "condition" in note]
    assert code == 0
    assert f"{'no' if offset is None else offset} offset" in note


def test_text_of_the_windows_becomes_the_stores(tmp_path):
    source = write_repository(tmp_path / "libero", [ROBOT], [payload(0, T, text_emb=text_of(ROBOT.sentence))])
    save_torch(source / "empty_emb.pt", np.ones((1, 4, TEXT), np.float32))
    assert run(source, tmp_path / "store")[0] == 0
    store = open_store(tmp_path / "store")
    np.testing.assert_array_equal(store.text(ROBOT.sentence)[:3], text_of(ROBOT.sentence))
    np.testing.assert_array_equal(store.text(""), np.ones((4, TEXT)))
    assert store.text("").shape == (4, TEXT)


def test_episodes_without_text_are_said_before_anything_is_converted(tmp_path):
    source = write_repository(tmp_path / "libero", [ROBOT], [payload(0, T)])
    save_torch(source / "empty_emb.pt", np.ones((4, TEXT), np.float32))
    with pytest.raises(InputError, match="--text = 'source'"):
        run(source, tmp_path / "store", "--text", "source")
    assert run(source, tmp_path / "store")[1]["text"] == "hashed-words"


class _Runs:
    """Pickles as a call that would leave a trace."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return os.mkdir, (str(self.trace),)


def test_a_hostile_payload_is_one_line_of_the_report(tmp_path):
    source = write_repository(tmp_path / "libero", [ROBOT, ROBOT], [payload(0, T), payload(1, T)])
    hostile = archive({"data.pkl": pickle.dumps(_Runs(tmp_path / "trace"), 2)})
    (source / "latents/chunk-000/front/episode_000001_0_17.pth").write_bytes(hostile)
    code, report = run(source, tmp_path / "store")
    assert (code, len(report["skipped"])) == (1, 1)
    assert "posix.mkdir" in report["skipped"][0]["reason"]
    assert "\n" not in report["skipped"][0]["reason"]
    assert not (tmp_path / "trace").exists()
    assert not (tmp_path / "store").exists()


def test_text_that_differs_within_a_sentence_is_refused(tmp_path):
    robots = [ROBOT, record(2, raw_frames=17)]
    contents = [payload(i, T, text_emb=text_of(f"{robot.sentence}{i}")) for i, robot in enumerate(robots)]
    source = write_repository(tmp_path / "libero", robots, contents)
    save_torch(source / "empty_emb.pt", np.ones((4, TEXT), np.float32))
    with pytest.raises(InputError, match="the same vectors"):
        run(source, tmp_path / "store")
    assert run(source, tmp_path / "store", "--text", "none")[0] == 0
    assert open_store(tmp_path / "store").manifest.text is None


def test_two_cameras_on_one_canvas(tmp_path):
    for number, camera in enumerate(CAMERAS):
        write_repository(tmp_path / "libero", [ROBOT], [payload(0, T, camera=number)], camera=camera)
    flags = [item for camera in CAMERAS for item in ("--camera", camera)]
    assert run(tmp_path / "libero", tmp_path / "store", *flags)[0] == 0
    store = open_store(tmp_path / "store")
    wide = np.concatenate([latents_of(0, T, camera=number) for number in range(2)], axis=2)
    np.testing.assert_array_equal(store.read(0)["video_latents"], wide.transpose(3, 0, 1, 2))
    assert store.manifest.encoder.kind == "vae, each view alone"


def test_repositories_below_a_root_are_found(tmp_path):
    for name in ("a", "b/c"):
        write_repository(tmp_path / "all" / name, [ROBOT], [payload(0, T)])
    assert run(tmp_path / "all", tmp_path / "store")[0] == 0
    assert open_store(tmp_path / "store").index.ids.tolist() == ["all/a/000000-0-17", "all/b/c/000000-0-17"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"frame_ids": [0, 2, 4, 6, 8, 10, 12, 14, 16]}, "--frame-stride"),
        ({"frame_ids": list(range(1, 18))}, "row 16 is the episode's last"),
        ({"frame_ids": list(range(13))}, "more than 13 for 5 latents"),
        ({"frame_ids": "all"}, "frame_ids"),
        ({"latent_num_frames": 6}, "more than 17 for 6 latents"),
        ({"latent": np.zeros((30, 48), np.int64)}, "floating-point"),
        ({"latent": [1, 2]}, "a tensor"),
        ({"latent": np.full((30, 48), np.nan, np.float16)}, "not finite"),
        ({"latent_layout": "HWTC"}, "THWC"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_reason(tmp_path, fields, said):
    source = write_repository(tmp_path / "libero", [ROBOT, ROBOT], [payload(0, T), payload(1, T, **fields)])
    code, report = run(source, tmp_path / "store")
    assert (code, report["state"], len(report["skipped"])) == (1, "refused", 1)
    assert re.search(said, report["skipped"][0]["reason"])
    assert not (tmp_path / "store").exists()


def test_other_channels_need_a_record(tmp_path):
    with pytest.raises(InputError, match="--latents-record = '7 channels'"):
        convert_one(tmp_path, latent=np.zeros((30, 7), np.float16))


@pytest.mark.parametrize(
    ("ids", "frames", "rows"), [(range(9), 3, (0, 9)), (range(3, 15), 3, (3, 12)), ([2, 6, 9], 3, (2, 10))]
)
def test_frames_of_the_video(ids, frames, rows):
    assert sampled_frames(np.array(ids), frames, stride=1, where="ids") == range(*rows)
