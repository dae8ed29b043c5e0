"""States are made in their shards, the same for the same seed, and share no buffers."""

import dataclasses

import jax
import numpy as np

from tests.training.fakes import LinearPolicy
from tests.training.rigs import OPTIMIZER, TRAINING, make_rig
from wam_jax.training.checksums import checksums
from wam_jax.training.state import start_from


def test_the_same_seed_gives_the_same_state() -> None:
    rig = make_rig()
    assert checksums(rig.fresh(3)) == checksums(rig.fresh(3))
    assert checksums(rig.fresh(3).params) != checksums(rig.fresh(4).params)


def test_the_state_is_what_the_abstract_one_promises() -> None:
    rig = make_rig()
    made = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype, leaf.sharding), rig.fresh())
    assert made == jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype, leaf.sharding), rig.abstract)


def test_a_start_from_parameters_copies_them() -> None:
    config = dataclasses.replace(TRAINING, optimizer=dataclasses.replace(OPTIMIZER, ema_decay=0.9))
    rig = make_rig(config=config)
    params = LinearPolicy().init(jax.random.key(5))
    state = start_from(rig.abstract, params, rig.optimizer)
    for leaf in jax.tree.leaves(state.params):
        leaf.delete()
    assert state.ema is not None
    np.testing.assert_array_equal(state.ema["head"]["kernel"], params["head"]["kernel"])
    assert int(state.step) == 0
