"""Batch-invariant mode in the programs that train: no product over more than a tile, and whole updates bit for bit."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.model.tracing import equations
from tests.support.cases import ADDITIVE, AS_TEXT, CASES, TEXT_CASES, Bench, write_store
from tests.support.networks import SMALL_NETWORK
from tests.support.runs import Room
from wam_jax.config.schema import OptimizerConfig
from wam_jax.data.transport import RowBatch
from wam_jax.model import segments
from wam_jax.training.mesh import make_mesh
from wam_jax.training.optimizer import make_optimizer
from wam_jax.training.programs import Programs, build_programs
from wam_jax.training.state import TrainState, abstract_state, initialise

TILE, LONG_SLOT = 16, 20
"""Tokens of a tile; frames of a slot that is longer, as a frame has two tokens."""
MOST_ROWS = TILE * SMALL_NETWORK["num_heads"]
"""Of an operand: the tokens of a tile, and in attention the heads beside them."""
INVARIANT: Room = {"batch_invariant": True}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return write_store(tmp_path_factory.mktemp("invariant"))


class Trainer:
    """The programs that train the network of a bench, for updates of so many samples."""

    def __init__(self, bench: Bench, *, samples: int) -> None:
        self.bench, self.optimizer = bench, make_optimizer(OptimizerConfig(warmup_steps=0), num_steps=4)
        self.abstract = abstract_state(make_mesh((1, 1)), bench.policy, self.optimizer)
        self.samples = samples

    @cached_property
    def programs(self) -> Programs:
        batch = self.bench.batch([0], slots=1)
        return build_programs(
            self.bench.policy, self.optimizer, abstract=self.abstract, batch=batch, samples_per_update=self.samples
        )

    def products(self, batch: RowBatch) -> list[Any]:
        """The matrix products of the gradient program."""
        programs = self.programs
        jaxpr = jax.make_jaxpr(programs.gradient)(self.abstract.params, jax.eval_shape(programs.zeros), batch)
        return [equation for equation in equations(jaxpr.jaxpr) if equation.primitive.name == "dot_general"]

    def updated(self, batches: Sequence[RowBatch], *, level: int) -> TrainState:
        """The state after an update of these microbatches; gradients are compiled at an optimisation level."""
        fresh = initialise(self.abstract, self.bench.policy, self.optimizer, seed=0)
        state, total = replace(fresh, params=jax.tree.map(jnp.asarray, self.bench.params)), self.programs.zeros()
        gradient = jax.jit(self.programs.gradient, compiler_options={"xla_backend_optimization_level": level})
        for batch in batches:
            total = gradient(state.params, total, batch)
        return self.programs.update(state, total)[0]


def _trainer(store, cases=CASES, base=ADDITIVE, *, mode="packed", numerics=INVARIANT, samples=4, **backbone) -> Trainer:
    batching = {"mode": mode, "tile_alignment": TILE}
    return Trainer(Bench(store, cases, base, batching, numerics, backbone), samples=samples)


def _most_rows(products: Sequence[Any]) -> int:
    """Of any operand: the size of all its axes but the last."""
    return max(int(np.prod(v.aval.shape[:-1])) for equation in products for v in equation.invars)


def _long_row(bench: Bench) -> RowBatch:
    """In which the slots, the text keys, the frames and the tokens each fill more than a tile."""
    return bench.batch(range(3), slots=4, rung=bench.rung(4, frames=LONG_SLOT))


@pytest.mark.parametrize(
    ("cases", "base"), [(CASES, ADDITIVE), pytest.param(TEXT_CASES, AS_TEXT, marks=pytest.mark.slow)]
)
def test_no_product_of_a_training_step_is_over_more_than_a_tile(cases, base, store):
    trainer = _trainer(store, cases, base)
    products = trainer.products(_long_row(trainer.bench))
    assert len(products) > 100
    assert _most_rows(products) <= MOST_ROWS


SEGMENTS = 16
"""Token-wise segments with a product in them."""


def _at_once(number: int) -> Callable[..., Any]:
    """`in_tiles`, but for its call of this number, which it makes at once."""
    calls, in_tiles = itertools.count(), segments.in_tiles

    def instead(function: Callable[..., Any], params: Any, *arrays: Any, tile: int) -> Any:
        whole = next(calls) == number
        return function(params, *arrays) if whole else in_tiles(function, params, *arrays, tile=tile)

    return instead


@pytest.mark.parametrize(
    "number", [pytest.param(n, marks=() if n == SEGMENTS - 1 else pytest.mark.slow) for n in range(SEGMENTS)]
)
def test_a_segment_that_is_not_cut_into_tiles_is_found(number, store, monkeypatch):
    trainer = _trainer(store)
    batch, _ = _long_row(trainer.bench), trainer.programs
    monkeypatch.setattr(segments, "in_tiles", _at_once(number))
    assert _most_rows(trainer.products(batch)) > MOST_ROWS


def test_all_segments_are_tried(store, monkeypatch):
    trainer, made = _trainer(store), []
    in_tiles = segments.in_tiles
    monkeypatch.setattr(segments, "in_tiles", lambda *a, **k: made.append(a) or in_tiles(*a, **k))
    assert trainer.programs is not None  # Traces the losses once.
    assert len(made) == SEGMENTS


MICROBATCHES = ([0, 3, 7], [10, 3, 5])


def _updates(trainers: Sequence[tuple[Trainer, int | None]], *, level: int = 0) -> list[list[bytes]]:
    """Parameters and moments after one update of the same microbatches, in rows of so many slots, or of no more."""
    states = []
    for trainer, slots in trainers:
        bench = trainer.bench
        rungs = [bench.rung(slots) if slots else bench.exact_rung(numbers) for numbers in MICROBATCHES]
        rows = zip(MICROBATCHES, rungs, strict=True)
        batches = [bench.batch(numbers, slots=rung.samples, rung=rung) for numbers, rung in rows]
        state = trainer.updated(batches, level=level)
        states.append([np.asarray(leaf).tobytes() for leaf in jax.tree.leaves((state.params, state.opt_state))])
    return states


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "level"),
    [
        ("float32", 0),
        pytest.param("float32", 3, marks=pytest.mark.long),
        pytest.param("bfloat16", 3, marks=pytest.mark.long),
    ],
)
def test_a_whole_update_has_the_same_bits_in_rows_of_any_mode_and_size(dtype, level, store):
    """Padded rows, as buckets are, with empty slots; packed rows with slots for any samples and for just these."""
    rows = {"packed": (3, None), "padded": (5,)}
    trainers = {mode: _trainer(store, mode=mode, samples=6, compute_dtype=dtype) for mode in rows}
    layouts = [(trainers[mode], slots) for mode, sizes in rows.items() for slots in sizes]
    first, *others = _updates(layouts, level=level)
    assert all(other == first for other in others)
    assert sum(any(leaf) for leaf in first) > len(first) // 2


@pytest.mark.slow
def test_without_the_mode_a_whole_update_has_other_bits_in_other_rows(store):
    trainers = [(_trainer(store, mode=mode, numerics={}, samples=6), 3) for mode in ("packed", "padded")]
    first, second = _updates(trainers)
    assert first != second
