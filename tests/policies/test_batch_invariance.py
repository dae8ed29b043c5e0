"""In batch-invariant mode not one bit of a sample's predictions, loss and gradient depends on what shares its batch.

Rows are random: programs, objectives and sequence contracts, lengths, neighbours (twice the same sample too), their
order, empty slots, packed and padded, rows of several sizes. Each sample is compared with itself in a row of its own.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.model.tracing import equations
from tests.support.cases import ADDITIVE, AS_TEXT, CASES, TEXT_CASES, Bench, write_store
from tests.support.runs import Room

TILE = 16
INVARIANT: Room = {"batch_invariant": True}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return write_store(tmp_path_factory.mktemp("invariance"))


class Subject:
    """A bench in packed and in padded rows, and what each of its samples comes to alone."""

    def __init__(self, store, *, cases=CASES, base=ADDITIVE, numerics=INVARIANT, level: int = 0, **backbone: Any):
        layouts = {mode: {"mode": mode, "tile_alignment": TILE} for mode in ("packed", "padded")}
        common = {"numerics": numerics, "backbone": backbone}
        self.benches = {mode: Bench(store, cases, base, batching=fields, **common) for mode, fields in layouts.items()}
        self.bench = self.benches["packed"]
        options = {"xla_backend_optimization_level": level}
        self.program = jax.jit(jax.value_and_grad(self._weighted, has_aux=True), compiler_options=options)
        self.alone = [self.run([number], number, slots=1) for number in range(len(cases))]

    def _weighted(self, params, batch, weights):
        losses, velocities = self.bench.policy.predict_train_batch(params, batch)
        return jnp.vdot(losses["loss"], weights), (losses, velocities)

    def run(self, numbers, number, *, slots: int, mode: str = "packed") -> Any:
        """What sample `number` comes to in a row of these: losses, predictions of its frames, gradient of its loss."""
        batch, slot = self.benches[mode].batch(numbers, slots=slots), list(numbers).index(number)
        weights = np.eye(slots, dtype=np.float32)[None, slot]
        (_, (losses, velocities)), gradient = self.program(self.bench.params, batch, weights)
        frames = int(batch.samples.num_frames[0, slot])
        own = [np.asarray(v[0, slot, : frames + int(batch.samples.prefix_frames[0, slot])]) for v in velocities]
        return {name: value[0, slot] for name, value in losses.items()}, own, gradient

    def differing(self, rng: np.random.Generator, *, sizes: tuple[int, ...]) -> int:
        """Values whose bits differ from those alone, of one sample of one random row."""
        slots, mode = int(rng.choice(sizes)), str(rng.choice(["packed", "padded"]))
        numbers = rng.integers(0, len(self.alone), rng.integers(1, slots + 1))
        number = int(rng.choice(numbers))
        found = self.run(numbers, number, slots=slots, mode=mode)
        pairs = zip(*map(jax.tree.leaves, (found, self.alone[number])), strict=True)
        return sum(_differing(np.asarray(ours), np.asarray(theirs)) for ours, theirs in pairs)


def _differing(ours: np.ndarray, theirs: np.ndarray) -> int:
    word = f"u{ours.dtype.itemsize}"
    bits = [np.atleast_1d(array).view(word) for array in (ours, theirs)]
    return int((bits[0] != bits[1]).sum())


def _differing_rows(subject: Subject, rows: int, *, sizes: tuple[int, ...], seed: int = 0) -> int:
    rng = np.random.default_rng(seed)
    return sum(subject.differing(rng, sizes=sizes) > 0 for _ in range(rows))


def test_no_bit_depends_on_the_batch(store):
    assert _differing_rows(Subject(store), 24, sizes=(3,)) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "level"),
    [
        ("float32", 3),
        pytest.param("bfloat16", 3, marks=pytest.mark.long),
        pytest.param("float32", 0, marks=pytest.mark.long),
        pytest.param("bfloat16", 0, marks=pytest.mark.long),
    ],
)
def test_no_bit_of_many_random_rows_depends_on_the_batch(dtype, level, store):
    subject = Subject(store, level=level, compute_dtype=dtype)
    assert _differing_rows(subject, 250, sizes=(2, 4, 7)) == 0


@pytest.mark.slow
@pytest.mark.long
def test_no_bit_of_rows_with_states_among_the_text(store):
    subject = Subject(store, cases=TEXT_CASES, base=AS_TEXT, level=3, remat="block")
    assert _differing_rows(subject, 60, sizes=(3,)) == 0


@pytest.mark.slow
def test_without_the_mode_bits_do_depend_on_the_batch(store):
    """Or else the tests above would prove nothing."""
    assert _differing_rows(Subject(store, numerics={}, level=3), 40, sizes=(2, 4, 7)) > 20


def test_no_product_is_over_more_than_a_tile(store):
    bench = Bench(store, CASES, ADDITIVE, batching={"mode": "packed", "tile_alignment": TILE}, numerics=INVARIANT)
    batch = bench.batch(range(4), slots=4)

    def loss(params, batch):
        return bench.policy.forward_train_batch(params, batch)["loss"].sum()

    sizes = [
        max(int(np.prod(v.aval.shape[:-1])) for v in equation.invars[:1])
        for equation in equations(jax.make_jaxpr(jax.grad(loss))(bench.params, batch).jaxpr)
        if equation.primitive.name == "dot_general"
    ]
    tokens = batch.layout.key_valid.shape[1]
    assert sizes
    assert max(sizes) < tokens / 2
