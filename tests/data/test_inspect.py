"""The command that shows a store."""

import json

import numpy as np
import pytest

from tests.support.stores import rewrite_episode, rewrite_index, write_tiny_store
from wam_jax.data import inspect
from wam_jax.data.inspection.verify import find_problems
from wam_jax.data.storage.store import CODEC, open_store
from wam_jax.errors import InputError


@pytest.fixture
def path(tmp_path):
    return write_tiny_store(tmp_path / "store", payload="safetensors", splits=["train", "train", "val", None])


def run(capsys, *arguments):
    code = inspect.main([str(argument) for argument in arguments])
    return code, capsys.readouterr().out


def test_the_report_counts(path, capsys):
    code, text = run(capsys, path, "--verify")
    assert code == 0
    assert f"push {2:>9}{0:>9}" in text
    assert f"total{3:>9}{1:>9}" in text
    assert "channel 3, height 2, width 2, action_dim 2, state_dim 3, text_dim 4" in text
    assert "min 2, quartile 2.75, median 3.5, upper quartile 4.25, max 5, mean 3.5, total 14" in text
    assert "sound: 4 of 4 checksums verified" in text


def test_json_says_the_same(path, capsys):
    code, text = run(capsys, path, "--json")
    report = json.loads(text)
    assert code == 0
    assert report["episodes"] == {"push": {"train": 2}, "reach": {"train": 1, "val": 1}}
    assert report["histogram"] == [[length, length, 1] for length in (2, 3, 4, 5)]
    assert report["missing"]["state"] == 0
    assert report["fingerprint"] == open_store(path).fingerprint
    assert (report["verified"], report["problems"]) == (False, [])


def test_missing_fields_are_counted(path, capsys):
    rewrite_index(path, "extent_state", 0, None)
    assert json.loads(run(capsys, path, "--json")[1])["missing"]["state"] == 1


def test_the_plot_is_an_image(path, tmp_path, capsys):
    run(capsys, path, "--plot", tmp_path / "lengths.png")
    assert (tmp_path / "lengths.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["lengths.bmp", "nowhere/lengths.png"])
def test_a_plot_that_cannot_be_written_is_refused_first(path, tmp_path, capsys, name):
    with pytest.raises(InputError, match="--plot"):
        run(capsys, path, "--plot", tmp_path / name)
    assert capsys.readouterr().out == ""


def test_a_value_that_changed_is_found_by_its_checksum(path, capsys):
    rewrite_episode(path, 1, actions=np.ones((10, 2), np.float32))
    assert run(capsys, path)[0] == 0
    code, text = run(capsys, path, "--verify")
    assert code == 1
    assert "PROBLEM sample ep1: checksum" in text
    assert "sound" not in text


def test_everything_that_is_wrong_is_listed(path, capsys):
    rewrite_index(path, "extent_actions", 2, 7)
    rewrite_index(path, "id", 3, "ep0")
    (path / "episodes" / "000001.safetensors").unlink()
    code, text = run(capsys, path, "--verify")
    assert code == 1
    for problem in ("000001.safetensors", "actions = 7", "id = 'ep0'", "fingerprint", "actions = 4: the index says 7"):
        assert problem in text


def test_lengths_are_compared_with_the_index(path):
    rewrite_index(path, "extent_proprio_context_frames", 1, None)
    problems = list(find_problems(open_store(path), payloads=True))
    assert any("proprio_context_frames = 5: the index says -1" in problem for problem in problems)


def test_a_foreign_codec_is_found(path):
    (path / CODEC).write_bytes(b"another")
    assert any("codec" in problem for problem in find_problems(open_store(path), payloads=False))


def test_where_there_is_no_store_it_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="store = "):
        inspect.main([str(tmp_path)])
