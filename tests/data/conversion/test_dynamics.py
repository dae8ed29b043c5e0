"""Encoded dynamics roots of the reference implementation."""

import json

import numpy as np
import pytest

from tests.data.conversion.commands import run
from tests.data.conversion.torch_files import save_torch
from wam_jax.data.conversion.dynamics import SCHEMA
from wam_jax.data.storage.splits import split_episodes
from wam_jax.data.storage.store import open_store
from wam_jax.errors import InputError

T, C, A = 4, 48, 4


def latents_of(number):
    return np.random.default_rng(number).normal(size=(C, T, 2, 3)).astype(np.float16)


def write_root(root, branches=("gt", "noise", "gt", "ood"), *, extra=0, states=1 + 4 * (T - 1), shard=None):
    """Two demonstrations with two branches each; `raw_<shard>` holds the steps."""
    rng, rows = np.random.default_rng(0), []
    for number, branch in enumerate(branches):
        row = {
            "branch": branch,
            "context_id": f"ctx{number // 2}",
            "sample_id": number,
            "sample_path": f"samples/{number}.npz",
            "target_latent_path": f"latents/{number}.pth",
            "dataset_episode_index": number // 2,
            "t0_frame": 3,
            "task_id": 7,
        }
        encoded, raw = (place / shard if shard else place for place in (root / "encoded", root / "raw"))
        save_torch(encoded / row["target_latent_path"], {"target_video_latents": latents_of(number)})
        raw.joinpath("samples").mkdir(parents=True, exist_ok=True)
        actions = rng.normal(size=(A * (T - 1) + extra, 2)).astype(np.float32)
        np.savez(
            raw / row["sample_path"], future_actions=actions, state=rng.normal(size=(states, 3)).astype(np.float32)
        )
        rows.append(row | ({"shard": shard} if shard else {}))
    write_manifest(root / "encoded", rows)
    return root / "encoded"


def write_manifest(encoded, rows, **changes):
    manifest = {"artifact_schema": SCHEMA, "reference_branch": "gt", "raw_payload_root": "../raw"} | changes
    encoded.joinpath("metadata").mkdir(exist_ok=True)
    encoded.joinpath("manifest.json").write_text(json.dumps(manifest))
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    encoded.joinpath("metadata/encoded_transitions.jsonl").write_text(lines)


def raw_of(encoded, number, shard=""):
    with np.load(encoded.parent / "raw" / shard / f"samples/{number}.npz") as file:
        return dict(file)


@pytest.mark.parametrize("extra", [0, A])
@pytest.mark.parametrize("shard", [None, "s0"])
def test_actions_latents_and_states_are_those_of_the_root(tmp_path, extra, shard):
    encoded = write_root(tmp_path, extra=extra, shard=shard)
    assert run(encoded, tmp_path / "store", "--fps", 20)[0] == 0
    store, raw = open_store(tmp_path / "store"), raw_of(encoded, 1, shard or "")
    arrays = store.read(1)
    np.testing.assert_array_equal(arrays["video_latents"], latents_of(1))
    assert arrays["actions"][:A].tolist() == arrays["action_mask"][:A].tolist() == [[0, 0]] * A
    np.testing.assert_array_equal(arrays["actions"][A:], raw["future_actions"][: A * (T - 1)])
    np.testing.assert_array_equal(arrays["state"], raw["state"])
    np.testing.assert_array_equal(arrays["proprio_context_frames"], raw["state"][::4])


def test_sources_texts_and_parents(tmp_path):
    assert run(write_root(tmp_path), tmp_path / "store")[0] == 0
    store = open_store(tmp_path / "store")
    assert store.index.sources.tolist() == ["real_demo", "counterfactual_dynamics"] * 2
    assert set(store.index.instructions) == {""}
    assert set(store.index.tasks) == {"encoded/7"}
    branches = store.manifest.provenance["branches"]["episodes"]
    assert branches == {"encoded/ctx0/noise/1": ["0", 12], "encoded/ctx1/ood/3": ["1", 12]}


def test_branches_are_in_the_split_of_their_demonstration(tmp_path):
    encoded = write_root(tmp_path, ("gt", "a") * 12)
    assert run(encoded, tmp_path / "store", "--val-fraction", 0.4)[0] == 0
    held_out = split_episodes(open_store(tmp_path / "store").index, "val")
    assert 0 < len(held_out) < 24
    np.testing.assert_array_equal(held_out[::2] + 1, held_out[1::2])


def test_states_at_latent_frames_become_proprio(tmp_path):
    encoded = write_root(tmp_path, states=T)
    assert run(encoded, tmp_path / "store")[0] == 0
    arrays = open_store(tmp_path / "store").read(0)
    assert "state" not in arrays
    np.testing.assert_array_equal(arrays["proprio_context_frames"], raw_of(encoded, 0)["state"])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"artifact_schema": None}, "artifact_schema = None"),
        ({"artifact_schema": "open_wam.encoded_dynamics.v2"}, "artifact_schema"),
        ({"raw_payload_root": "/abs"}, "relative to the root"),
        ({"raw_payload_root": "../nowhere"}, "a directory that exists"),
        ({"raw_payload_root": None}, "relative to the root"),
        ({"reference_branch": "best"}, "reference_branch = 'best'"),
    ],
)
def test_a_manifest_that_cannot_be_used_is_refused(tmp_path, changes, said):
    encoded = write_root(tmp_path)
    rows = [
        json.loads(line) for line in encoded.joinpath("metadata/encoded_transitions.jsonl").read_text().splitlines()
    ]
    write_manifest(encoded, rows, **changes)
    with pytest.raises(InputError, match=said):
        run(encoded, tmp_path / "store")


@pytest.mark.parametrize("name", ["branch", "context_id", "sample_id", "sample_path", "target_latent_path"])
def test_a_row_without_a_required_field_is_refused(tmp_path, name):
    encoded = write_root(tmp_path)
    rows = [
        json.loads(line) for line in encoded.joinpath("metadata/encoded_transitions.jsonl").read_text().splitlines()
    ]
    write_manifest(encoded, [rows[0], {key: value for key, value in rows[1].items() if key != name}])
    with pytest.raises(InputError, match=f"line 2: {name}"):
        run(encoded, tmp_path / "store")


def test_an_empty_index_is_refused(tmp_path):
    encoded = write_root(tmp_path)
    write_manifest(encoded, [])
    with pytest.raises(InputError, match="rows, one per transition"):
        run(encoded, tmp_path / "store")


@pytest.mark.parametrize("path", ["../../raw/samples/0.npz", "/etc/passwd"])
def test_paths_that_leave_the_root_are_refused(tmp_path, path):
    encoded = write_root(tmp_path)
    rows = [
        json.loads(line) for line in encoded.joinpath("metadata/encoded_transitions.jsonl").read_text().splitlines()
    ]
    write_manifest(encoded, [rows[0], rows[1] | {"sample_path": path}])
    code, report = run(encoded, tmp_path / "store")
    assert code == 1
    assert "inside the source" in report["skipped"][0]["reason"]


@pytest.mark.parametrize(("change", "said"), [({"extra": 3}, "--actions-per-frame"), ({"states": 2}, "one a step")])
def test_counts_that_do_not_fit_are_refused(tmp_path, change, said):
    code, report = run(write_root(tmp_path, **change), tmp_path / "store")
    assert (code, len(report["skipped"])) == (1, 4)
    assert said in report["skipped"][0]["reason"]
