"""`python -m tests.training.killed_save DIRECTORY`: saves one state after another without end, and says at which it is.

Every number of the state of step n is n. The first one is durable before anything is said.
"""

import dataclasses
import itertools
import sys
from pathlib import Path

import jax
import jax.numpy as jnp

from tests.training.rigs import make_rig
from wam_jax.training.checkpoint import CheckpointWriter
from wam_jax.training.state import TrainState

NUMBERS = (2048, 1024)


def state_of(step: int) -> TrainState:
    """The state of a step."""
    base = make_rig().fresh()
    return dataclasses.replace(base, params={"kernel": jnp.full(NUMBERS, step, jnp.float32)}, opt_state={})


def abstract_of(state: TrainState) -> TrainState:
    """What a restored one looks like."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding), state)


def main() -> None:
    """Saves until it is killed."""
    first = state_of(0)
    with CheckpointWriter(Path(sys.argv[1]), keep=2) as writer:
        writer.save(0, first, {})
        writer.wait()
        for step in itertools.count(1):
            writer.save(step, dataclasses.replace(first, params={"kernel": first.params["kernel"] + step}), {})
            print(step, flush=True)


if __name__ == "__main__":
    main()
