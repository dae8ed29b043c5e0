"""`python -m tests.training.large_state DIRECTORY NUMBERS`: saves and restores a state of that many parameters.

One of several processes that share it by "fsdp". Writes to DIRECTORY/PROCESS.json, in bytes: the process's live shards,
and the most memory that it took beyond what it had before, at the save and at the restore.
"""

import dataclasses
import functools
import json
import resource
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from tests.training.rigs import OPTIMIZER
from wam_jax.training.checkpoint import CheckpointWriter, restore_state
from wam_jax.training.checksums import checksums
from wam_jax.training.cluster import connected
from wam_jax.training.locate import CheckpointRef
from wam_jax.training.mesh import make_mesh
from wam_jax.training.optimizer import make_optimizer
from wam_jax.training.state import TrainState, abstract_state, initialise

LAYERS, WIDTH = 12, 1024


class Wide:
    """A stack of square kernels with about the wanted number of parameters."""

    supported_batching_modes = frozenset({"strict"})

    def __init__(self, numbers: int) -> None:
        self._shape = (LAYERS, WIDTH, numbers // (LAYERS * WIDTH))

    def init(self, key: jax.Array) -> dict[str, Any]:
        return {"blocks": {"kernel": jax.random.normal(key, self._shape, jnp.float32)}}


def resident() -> int:
    """Memory of this process, bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@contextmanager
def peak(found: dict[str, int], name: str) -> Generator[None]:
    """Notes the most memory that was taken inside beyond that at its beginning."""
    before, most, over = resident(), 0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not over.wait(0.01):
            most = max(most, resident() - before)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        found[name] = most


@functools.partial(jax.jit, donate_argnums=0)
def with_moments(state: TrainState) -> TrainState:
    """Moments that no compression makes small, in the place of the old ones."""
    kernel = state.params["blocks"]["kernel"]
    filled = jax.tree.map(lambda leaf: leaf + kernel if leaf.shape == kernel.shape else leaf, state.opt_state)
    return dataclasses.replace(state, opt_state=filled)


def live(state: TrainState) -> int:
    """Bytes of this process's shards."""
    return sum(shard.data.nbytes for leaf in jax.tree.leaves(state) for shard in leaf.addressable_shards)


def exercise(directory: Path, numbers: int) -> dict[str, Any]:
    """Saves a first state and reads it back."""
    policy: Any = Wide(numbers)
    optimizer = make_optimizer(OPTIMIZER, num_steps=3)
    abstract = abstract_state(make_mesh((1, -1)), policy, optimizer)
    state = with_moments(initialise(abstract, policy, optimizer, seed=0))
    found: dict[str, Any] = {"live": live(state), "sums": checksums(state)}
    found["sharding"] = str(state.params["blocks"]["kernel"].sharding.spec)
    with peak(found, "saving"), CheckpointWriter(directory / "checkpoints", keep=1) as writer:
        writer.save(1, state, {})
    for leaf in jax.tree.leaves(state):
        leaf.delete()
    time.sleep(0.5)
    ref = CheckpointRef(directory / "checkpoints", 1, "--resume-from")
    with peak(found, "restoring"):
        state = restore_state(ref, abstract)
        found["restored_sums"] = checksums(state)
    return found


def main() -> None:
    """Measures as one of the processes."""
    directory, numbers = Path(sys.argv[1]), int(sys.argv[2])
    with connected(heartbeat_seconds=100):
        found = exercise(directory, numbers)
        (directory / f"{jax.process_index()}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
