"""What converting and reading cost on a synthetic set of a chosen size: throughput and memory.

    python benchmarks/conversion.py --directory /some/disk                     1 GB of latents, some minutes
    python benchmarks/conversion.py --directory /some/disk --gigabytes 0.1

Writes episodes of 9 to 55 latent frames (48 x 8 x 8 cells, with condition latents, actions and states) as safetensors
files, converts them, and reads whole episodes and segments of nine frames in random order. Numbers are noise, the worst
case: nothing compresses. Peak memory is that of each process on its own. With `--train` it then runs the quick start on
the converted store for some updates and prints which share of the time they waited for data.
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import safetensors.numpy
from tqdm import tqdm

from wam_jax.data.storage.store import Store, open_store

_RECORD = {
    "name": "noise",
    "kind": "stand-in",
    "spatial_stride": 16,
    "temporal_stride": 4,
    "channels": 48,
    "normaliser": "unit variance",
}


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description="times conversion and random reads")
    parser.add_argument("--directory", type=Path, required=True, help="needs three times the size; emptied afterwards")
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--reads", type=int, default=2000)
    parser.add_argument("--train", type=int, default=0, metavar="UPDATES", help="also run the quick start")
    options = parser.parse_args()
    work = options.directory / "conversion-benchmark"
    work.mkdir(parents=True)
    try:
        size = write_source(work / "source", round(options.gigabytes * 1e9))
        convert(work, size, workers=options.workers)
        store = open_store(work / "store")
        for name, frames in (("episodes", None), ("segments of 9 frames", 9)):
            read(store, options.reads, name=name, frames=frames)
        if options.train:
            train(work, updates=options.train)
    finally:
        shutil.rmtree(work)


def write_source(folder: Path, size: int) -> int:
    """Writes episodes until they have `size` bytes; returns how many they have."""
    folder.mkdir()
    total = 0
    with tqdm(total=size, desc="writing", unit="B", unit_scale=True) as bar:
        for number, arrays in enumerate(episodes()):
            data = safetensors.numpy.save(arrays)
            (folder / f"{number:06d}.safetensors").write_bytes(data)
            total += len(data)
            bar.update(len(data))
            if total >= size:
                return total
    raise AssertionError("episodes never end")


def episodes() -> Iterator[dict[str, np.ndarray]]:
    """Noise with the lengths of short manipulation."""
    rng = np.random.default_rng(0)
    while True:
        T = int(np.clip(rng.lognormal(3.0, 0.45), 9, 55))
        R = 1 + 4 * (T - 1)
        video = rng.normal(size=(2, 48, T, 8, 8)).astype(np.float16)
        yield {
            "video_latents": video[0],
            "condition_latents": video[1],
            "actions": rng.uniform(-1, 1, (R - 1, 4)).astype(np.float32),
            "states": rng.normal(size=(R, 4)).astype(np.float32),
        }


def convert(work: Path, size: int, *, workers: int) -> None:
    """Runs the command in a process of its own and prints its rate and its memory."""
    (work / "record.json").write_text(json.dumps(_RECORD))
    words = ["-m", "wam_jax.data.convert", work / "source", work / "store", "--workers", workers]
    flags = ["--latents-record", work / "record.json", "--fps", "20"]
    begun = time.perf_counter()
    subprocess.run([sys.executable, *map(str, words + flags)], check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3
    rate = size / 1e6 / seconds
    print(f"convert: {size / 1e6:.0f} MB in {seconds:.1f} s, {rate:.0f} MB/s, peak {peak:.0f} MB a process")


def read(store: Store, count: int, *, name: str, frames: int | None) -> None:
    """Reads in random order and prints the rate."""
    rng = np.random.default_rng(0)
    lengths, total = store.index.extents["video_latents"], 0
    begun = time.perf_counter()
    for episode in rng.integers(0, len(store), count):
        start = 0 if frames is None else int(rng.integers(0, lengths[episode] - frames + 1))
        cut = None if frames is None else (start, start + frames)
        total += sum(array.nbytes for array in store.read(int(episode), frames=cut).values())
    seconds = time.perf_counter() - begun
    print(f"read {name}: {count / seconds:.0f} a second, {total / 1e6 / seconds:.0f} MB/s, one thread")


def train(work: Path, *, updates: int) -> None:
    """Runs the quick start on the store and prints how long updates waited for data."""
    words = [
        "--config",
        "configs/quickstart.py",
        "--workdir",
        str(work / "run"),
        f"--config.data.store={work / 'store'}",
    ]
    small = [f"--config.training.num_steps={updates}", "--config.training.optimizer.warmup_steps=1"]
    brief = ["--config.validation.num_draws=4", "--config.data.verify_up_to_bytes=0"]
    subprocess.run(
        [sys.executable, "-m", "wam_jax.train", *words, *small, *brief], check=True, stdout=subprocess.DEVNULL
    )
    rows = [json.loads(line) for line in (work / "run/metrics.jsonl").read_text().splitlines()]
    steps = [row for row in rows if row["phase"] == "train"][2:]
    waited, whole = (sum(row[name] for row in steps) for name in ("data_wait_seconds", "step_seconds"))
    print(
        f"train: {len(steps)} updates of {whole / len(steps):.2f} s, waited for data {waited / whole:.2%} of the time"
    )


if __name__ == "__main__":
    main()
