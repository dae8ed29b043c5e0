"""The command: options, dry runs, reports, splits, encoders, exit codes."""

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.data.conversion.commands import run, write_npz
from tests.data.conversion.robots import SENTENCES, record, write_lerobot
from wam_jax.data import convert
from wam_jax.data.conversion import publish
from wam_jax.data.conversion.run import HOPELESS
from wam_jax.data.encoders.codec import codec_of
from wam_jax.data.storage.normalisation import normalisation_of
from wam_jax.data.storage.splits import split_episodes
from wam_jax.data.storage.store import open_store
from wam_jax.errors import InputError

ROBOTS = [record(number) for number in range(5)]
MEANS = ("--encoder", "tests.data.conversion.commands:MeanEncoder")


@pytest.fixture
def source(tmp_path):
    return write_lerobot(tmp_path / "robots", ROBOTS, kind="image")


def test_a_dry_run_writes_nothing(tmp_path, source, capsys):
    code, report = run(source, tmp_path / "store", *MEANS, "--dry-run")
    assert (code, report["state"], report["episodes"]) == (0, "planned", 5)
    out = capsys.readouterr().out
    assert "LeRobot v3.0" in out
    assert "first     video_latents 3 x 3 x 4 x 4, actions 12 x 2" in out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["robots", "store.report.json"]


def test_a_dry_run_tries_the_first_episode(tmp_path, source):
    code, report = run(
        source, tmp_path / "store", "--encoder", "tests.data.conversion.commands:broken_encoder", "--dry-run"
    )
    assert (code, report["state"], len(report["skipped"])) == (1, "planned", 1)
    code, report = run(source, tmp_path / "store", "--encoder", "stand-in", "--dry-run")
    assert (code, report["sizes"]) == (0, "frames 9 x 32 x 32 x 3, actions 8 x 2")


def test_the_report_counts(tmp_path, source, capsys):
    code, report = run(source, tmp_path / "store", *MEANS, "--val-tasks", SENTENCES[1])
    assert (code, report["splits"]) == (0, {"train": 3, "val": 2})
    assert report["latent_frames"] == sum(1 + -(-(len(robot.frames) - 1) // 4) for robot in ROBOTS)
    assert "written" in capsys.readouterr().out


@pytest.fixture
def damaged(source):
    """The third episode has one image that is none."""
    path = source / "data/chunk-000/file-000.parquet"
    rows = pq.read_table(path).to_pylist()
    at = sum(len(robot.frames) for robot in ROBOTS[:2]) + 1
    rows[at]["observation.images.front"]["bytes"] = b"no image"
    pq.write_table(pa.Table.from_pylist(rows, schema=pq.read_schema(path)), path)
    return source


def test_an_episode_that_cannot_be_used_stands_in_the_way(tmp_path, damaged, capsys):
    code, report = run(damaged, tmp_path / "store", *MEANS)
    assert (code, report["state"]) == (1, "refused")
    (skipped,) = report["skipped"]
    assert skipped["id"] == "robots-000002"
    assert "frame 1" in skipped["reason"]
    assert "no store was written: 1 of 5 episodes" in capsys.readouterr().out
    assert not (tmp_path / "store").exists()


def test_unless_it_is_left_out(tmp_path, damaged):
    code, report = run(damaged, tmp_path / "store", *MEANS, "--skip-bad")
    assert (code, report["state"], len(report["skipped"])) == (0, "complete", 1)
    store = open_store(tmp_path / "store")
    assert store.index.ids.tolist() == [f"robots-{number:06d}" for number in (0, 1, 3, 4)]
    assert store.manifest.provenance["skipped"] == report["skipped"]


def test_episodes_that_do_not_fit_the_first_are_skipped_too(tmp_path):
    write_npz(tmp_path / "lab/b.npz", arrays := {"frames": ROBOTS[0].frames, "actions": ROBOTS[0].actions})
    write_npz(tmp_path / "lab/a.npz", arrays)
    write_npz(tmp_path / "lab/c.npz", arrays | {"actions": ROBOTS[0].actions[:, :1]})
    code, report = run(tmp_path / "lab", tmp_path / "store", *MEANS)
    assert (code, [item["id"] for item in report["skipped"]]) == (1, ["lab/c"])
    assert not (tmp_path / "store").exists()
    code, report = run(tmp_path / "lab", tmp_path / "store", *MEANS, "--skip-bad")
    assert (code, [item["id"] for item in report["skipped"]]) == (0, ["lab/c"])
    assert "axis action_dim is 2" in report["skipped"][0]["reason"]
    assert open_store(tmp_path / "store").index.ids.tolist() == ["lab/a", "lab/b"]


def test_that_nothing_is_held_out_is_noted(tmp_path, source):
    _, report = run(source, tmp_path / "store", *MEANS, "--val-fraction", 0)
    assert report["notes"] == {"nothing is held out, and training needs some; see --val-fraction": 5}


def test_held_out_by_list(tmp_path, source):
    tmp_path.joinpath("val.txt").write_text("robots-000001\nrobots-000004\n")
    assert run(source, tmp_path / "store", *MEANS, "--val-episodes", tmp_path / "val.txt")[0] == 0
    assert split_episodes(open_store(tmp_path / "store").index, "val").tolist() == [1, 4]


def test_tasks_have_names(tmp_path, source):
    tmp_path.joinpath("names.json").write_text(json.dumps({SENTENCES[0]: "open"}))
    assert run(source, tmp_path / "store", *MEANS, "--task-names", tmp_path / "names.json")[0] == 0
    index = open_store(tmp_path / "store").index
    assert set(index.tasks) == {"open", SENTENCES[1]}
    assert set(index.instructions) == set(SENTENCES)


def test_actions_are_scaled_and_the_scaling_is_kept(tmp_path, source):
    assert run(source, tmp_path / "store", *MEANS, "--normalise-actions", "gaussian", "--val-fraction", 0)[0] == 0
    store = open_store(tmp_path / "store")
    found = normalisation_of(store.manifest)
    np.testing.assert_allclose(store.manifest.statistics["actions"].std, 1, rtol=1e-5)
    recorded = np.concatenate([robot.actions[:-1] for robot in ROBOTS])
    np.testing.assert_allclose(found["actions"].statistics["mean"], recorded.mean(0), rtol=1e-4)
    R = len(ROBOTS[0].frames)
    inverted = found["actions"].invert(store.read(0)["actions"][4 : 4 + R - 1])
    np.testing.assert_allclose(inverted, ROBOTS[0].actions[:-1], atol=1e-5)
    assert found["state"].mode == "none"


def test_a_stand_in_is_fitted(tmp_path, source):
    flags = ["--encoder", "stand-in", "--patch", 4, "--channels", 5]
    assert run(source, tmp_path / "store", *flags)[0] == 0
    codec = codec_of(open_store(tmp_path / "store"))
    assert codec is not None
    assert (codec.patch, codec.channels) == (4, 5)


def test_an_encoder_that_breaks_its_promise_is_named(tmp_path, source):
    code, report = run(source, tmp_path / "store", "--encoder", "tests.data.conversion.commands:broken_encoder")
    assert (code, len(report["skipped"])) == (1, 5)
    assert "floats of shape (3, 3, 4, 4)" in report["skipped"][0]["reason"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "--encoder = None: the source has video"),
        (["--encoder", "nothing"], "MODULE:FUNCTION"),
        (["--encoder", "wam_jax.data:nothing"], "can be imported"),
        (["--encoder", "builtins:dict"], "`record` and `encode`"),
        (["--encoder", "codec:nowhere"], "store = 'nowhere'"),
        ([*MEANS, "--action-key", "torque"], r"--action-key = .torque."),
        ([*MEANS, "--camera", "side"], "one of observation.images.front"),
        ([*MEANS, "--val-tasks", "dance"], "--val-tasks = 'dance'"),
        ([*MEANS, "--val-fraction", "1"], "below 1"),
        ([*MEANS, "--workers", "0"], "--workers = 0"),
        ([*MEANS, "--clip", "1", "0"], "LOW below HIGH"),
        ([*MEANS, "--frame-stride", "0"], "--frame-stride = 0"),
        ([*MEANS, "--text", "nowhere"], "text cache"),
        ([*MEANS, "--typo"], "see python -m wam_jax.data.convert --help"),
        ([*MEANS, "--normalise-actions", "joint_limits"], "lower < upper"),
        ([*MEANS, "--layout", "dynamics"], "manifest.json"),
    ],
)
def test_what_cannot_work_is_said_in_one_line(tmp_path, source, flags, said):
    words = [str(item) for item in (source, tmp_path / "store", *flags)]
    with pytest.raises(InputError, match=said) as refusal:
        convert.main(words)
    assert "\n" not in str(refusal.value)
    assert not (tmp_path / "store").exists()


def test_a_directory_of_nothing_is_refused(tmp_path):
    with pytest.raises(InputError, match="source = "):
        run(tmp_path, tmp_path / "store")
    with pytest.raises(InputError, match="a directory"):
        run(tmp_path / "nowhere", tmp_path / "store")


def test_exit_code_2_and_one_line(tmp_path):
    words = [sys.executable, "-m", "wam_jax.data.convert", str(tmp_path / "nowhere"), str(tmp_path / "store")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr.startswith("error: source = ")
    assert done.stderr.count("\n") == 1


def test_work_on_another_disk_is_copied(tmp_path, source, monkeypatch):
    monkeypatch.setattr(publish, "on_one_disk", lambda *_: False)
    store = tmp_path / "deep" / "store"
    code = convert.main([str(item) for item in (source, store, *MEANS, "--work-dir", tmp_path / "work")])
    assert code == 0
    assert len(open_store(store)) == 5
    assert list((tmp_path / "work").iterdir()) == []


def test_where_nothing_works_it_ends_early(tmp_path):
    for number in range(HOPELESS + 5):
        write_npz(tmp_path / f"lab/{number:02d}.npz", {"frames": ROBOTS[0].frames})
    code, report = run(tmp_path / "lab", tmp_path / "store", *MEANS)
    assert (code, len(report["skipped"])) == (1, HOPELESS)
    code, report = run(tmp_path / "lab", tmp_path / "store", *MEANS, "--skip-bad")
    assert (code, report["state"], len(report["skipped"])) == (1, "refused", HOPELESS + 5)


@pytest.mark.slow
def test_a_process_that_dies_is_said_in_one_line(tmp_path, source):
    with pytest.raises(InputError, match="--workers = 2: one of the processes was ended"):
        run(source, tmp_path / "store", "--encoder", "tests.data.conversion.commands:Deadly", "--workers", 2)
    assert not (tmp_path / "store").exists()
