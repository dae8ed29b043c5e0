"""Compiling ahead: afterwards an epoch compiles no gradient program, whatever its samples are."""

from collections import Counter

import jax
import pytest
from jax import monitoring

from tests.support.networks import SMALL_NETWORK, policy_for
from tests.support.runs import tiny_config
from tests.support.stores import write_tiny_store
from tests.training.fakes import make_batch
from tests.training.rigs import make_rig
from wam_jax.config.schema import OptimizerConfig
from wam_jax.data.loader import TrainData
from wam_jax.data.storage.store import open_store
from wam_jax.training.mesh import make_mesh, put_rows
from wam_jax.training.optimizer import make_optimizer
from wam_jax.training.programs import build_programs
from wam_jax.training.state import abstract_state, initialise
from wam_jax.training.warmup import compile_ahead

COMPILED = "/jax/core/compile/backend_compile_duration"


@pytest.fixture
def compiled():
    """How often each function was compiled since the test began."""
    seen: Counter[str] = Counter()

    def listen(event: str, duration_secs: float, **details: str | int) -> None:
        del duration_secs
        if event == COMPILED:
            seen[str(details.get("fun_name"))] += 1

    monitoring.register_event_duration_secs_listener(listen)
    yield seen
    monitoring.unregister_event_duration_listener(listen)


def test_after_it_an_epoch_compiles_nothing(tmp_path, compiled):
    store = open_store(write_tiny_store(tmp_path / "store", lengths=(3, 9, 2, 5, 7, 2, 4, 6, 8, 3, 2, 2, 3)))
    config = tiny_config(
        construction={"chunk_size": 3}, batching={"mode": "packed", "max_compiled_shapes": 3}, backbone=SMALL_NETWORK
    )
    data, mesh, policy = TrainData(config, store, rows=range(1)), make_mesh((1, 1)), policy_for(config, store)
    optimizer = make_optimizer(OptimizerConfig(), num_steps=4)
    abstract = abstract_state(mesh, policy, optimizer)
    state = initialise(abstract, policy, optimizer, seed=0)
    programs = build_programs(
        policy,
        optimizer,
        abstract=abstract,
        batch=data.validation()[0],
        samples_per_update=data.draws_per_step,
        objectives=data.objectives,
    )
    compile_ahead(programs, state, data.empty_batches(), mesh)
    shapes = len(data.shapes.ladder.rungs)
    assert shapes == 3
    assert compiled["jit(gradient)"] == shapes
    used = set()
    for _, step in zip(range(data.draws_per_epoch // data.draws_per_step), data.steps(), strict=False):
        for batch in step.batches:
            used.add(batch.layout.video_source.shape)
            jax.block_until_ready(programs.gradient(state.params, programs.zeros(), put_rows(mesh, batch)))
    assert len(used) > 1
    assert compiled["jit(gradient)"] == shapes


def test_what_will_not_be_used_is_not_compiled(compiled):
    rig, asked = make_rig(), iter([False, True])
    batches = [make_batch(0), make_batch(1), make_batch(2)]
    compile_ahead(rig.programs, rig.fresh(), batches, rig.mesh, until=lambda: next(asked))
    assert compiled["jit(gradient)"] == 1
