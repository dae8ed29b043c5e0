"""Damaged files of every kind: never a crash, never a store that looks complete and is not."""

import random

import numpy as np
import pytest

from tests.data.conversion.commands import codec_file, run, write_npz
from tests.data.conversion.robots import record, write_lerobot
from tests.data.conversion.sidecars import TEXT, payload, write_repository
from tests.data.conversion.test_dynamics import write_root
from tests.data.conversion.torch_files import save_torch
from wam_jax.data.inspection.verify import find_problems
from wam_jax.data.storage.store import MANIFEST, open_store
from wam_jax.errors import InputError

ROBOTS = [record(number) for number in range(2)]
V3, V21 = "videos/observation.images.front/chunk-000/file-000.mp4", "data/chunk-000/episode_000001.parquet"


def _lerobot(root, version):
    return write_lerobot(root, ROBOTS, version=version), ["--encoder", f"codec:{codec_file(root)}"]


def _folder(root):
    root.mkdir()
    for number, robot in enumerate(ROBOTS):
        arrays = {"frames": robot.frames, "actions": robot.actions, "states": robot.states}
        write_npz(root / f"{number}.npz", arrays)
    return root, ["--encoder", "tests.data.conversion.commands:MeanEncoder"]


def _sidecar(root):
    robots = [record(0, raw_frames=17)] * 2
    write_repository(root, robots, [payload(i, 5, text_emb=np.ones((2, TEXT), np.float16)) for i in range(2)])
    save_torch(root / "empty_emb.pt", np.ones((2, TEXT), np.float16))
    return root, []


KINDS = {
    "pth": (_sidecar, "latents/chunk-000/front/episode_000001_0_17.pth"),
    "text": (_sidecar, "empty_emb.pt"),
    "side-car rows": (_sidecar, "data/chunk-000/episode_000000.parquet"),
    "episodes.jsonl": (lambda root: _lerobot(root, "v2.1"), "meta/episodes.jsonl"),
    "info.json": (lambda root: _lerobot(root, "v3.0"), "meta/info.json"),
    "episodes.parquet": (lambda root: _lerobot(root, "v3.0"), "meta/episodes/chunk-000/file-000.parquet"),
    "mp4": (lambda root: _lerobot(root, "v3.0"), V3),
    "rows": (lambda root: _lerobot(root, "v2.1"), V21),
    "npz": (_folder, "1.npz"),
    "dynamics": (lambda root: (write_root(root), []), "../encoded/metadata/encoded_transitions.jsonl"),
}


def damaged(data, rng):
    """`data` cut, with bytes changed, with a part doubled, or with a part of zeros."""
    out = bytearray(data)
    match rng.randrange(4):
        case 0:
            return bytes(out[: rng.randrange(len(out))])
        case 1:
            for _ in range(rng.choice([1, 3, 30])):
                out[rng.randrange(len(out))] = rng.randrange(256)
        case 2:
            at, length = rng.randrange(len(out)), rng.randrange(1, 64)
            out[at:at] = out[at : at + length]
        case 3:
            at = rng.randrange(len(out))
            out[at : at + 32] = bytes(len(out[at : at + 32]))
    return bytes(out)


@pytest.mark.parametrize("kind", KINDS)
def test_ten_damaged_files_of_a_kind(tmp_path, kind):
    make, name = KINDS[kind]
    source, flags = make(tmp_path / "source")
    file, rng = source / name, random.Random(kind)
    whole = file.read_bytes()
    for number in range(10):
        store = tmp_path / f"store-{number}"
        file.write_bytes(damaged(whole, rng))
        try:
            code, report = run(source, store, *flags)
        except InputError:
            code, report = 2, None
        assert store.joinpath(MANIFEST).exists() == (code == 0)
        if code == 0:
            assert list(find_problems(open_store(store), payloads=True)) == []
        elif report:
            assert report["state"] == "refused"
            assert report["skipped"]
