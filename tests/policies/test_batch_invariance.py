"""In batch-invariant mode not one bit of a sample's predictions, loss and gradient depends on what shares its batch.

Rows are random: programs, objectives and sequence contracts, lengths, neighbours (twice the same sample too), their
order, empty slots, rows of several sizes, packed, padded and of buckets (which are padded, too). Strict rows, which
take equal samples only, are all tried. Each sample is compared with itself in a row of its own.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.cases import ADDITIVE, AS_TEXT, CASES, TEXT_CASES, Bench, write_store
from tests.support.runs import Room
from wam_jax.sequence.rung import Rung

TILE = 16
INVARIANT: Room = {"batch_invariant": True}
MIXED = ("packed", "padded", "bucket")
"""Modes whose rows take samples of unequal lengths."""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return write_store(tmp_path_factory.mktemp("invariance"))


class Subject:
    """A bench in rows of every mode, and what each of its samples comes to alone."""

    def __init__(self, store, *, cases=CASES, base=ADDITIVE, numerics=INVARIANT, level: int = 0, **backbone: Any):
        layouts = {mode: {"mode": mode, "tile_alignment": TILE} for mode in (*MIXED, "strict")}
        common = {"numerics": numerics, "backbone": backbone}
        self.benches = {mode: Bench(store, cases, base, batching=fields, **common) for mode, fields in layouts.items()}
        self.bench = self.benches["packed"]
        options = {"xla_backend_optimization_level": level}
        self.program = jax.jit(jax.value_and_grad(self._weighted, has_aux=True), compiler_options=options)
        self.alone = [self.run([number], number, slots=1) for number in range(len(cases))]

    def _weighted(self, params, batch, weights):
        losses, velocities = self.bench.policy.predict_train_batch(params, batch)
        return jnp.vdot(losses["loss"], weights), (losses, velocities)

    def extents(self, number: int) -> Rung:
        """The size of a sample by itself."""
        return self.benches["strict"].exact_rung([number])

    def run(self, numbers, number, *, slots: int, mode: str = "packed") -> Any:
        """What sample `number` comes to in a row of these: losses, predictions of its frames, gradient of its loss."""
        bench, slot = self.benches[mode], list(numbers).index(number)
        batch = bench.batch(numbers, slots=slots, rung=bench.exact_rung(numbers) if mode == "strict" else None)
        weights = np.eye(slots, dtype=np.float32)[None, slot]
        (_, (losses, velocities)), gradient = self.program(self.bench.params, batch, weights)
        frames, prefix = (int(count[0, slot]) for count in (batch.samples.num_frames, batch.samples.prefix_frames))
        own = [np.asarray(v[0, slot, :end]) for v, end in zip(velocities, (frames + prefix, frames), strict=True)]
        return {name: value[0, slot] for name, value in losses.items()}, own, gradient

    def compared(self, numbers, number, *, slots: int, mode: str) -> int:
        """Values of sample `number` in a row of these whose bits differ from those alone."""
        found = self.run(numbers, number, slots=slots, mode=mode)
        pairs = zip(*map(jax.tree.leaves, (found, self.alone[number])), strict=True)
        return sum(_differing(np.asarray(ours), np.asarray(theirs)) for ours, theirs in pairs)

    def differing(self, rng: np.random.Generator, *, sizes: tuple[int, ...]) -> int:
        """The same of one sample of one random row."""
        slots, mode = int(rng.choice(sizes)), str(rng.choice(MIXED))
        numbers = rng.integers(0, len(self.alone), rng.integers(1, slots + 1))
        return self.compared(numbers, int(rng.choice(numbers)), slots=slots, mode=mode)


def _differing(ours: np.ndarray, theirs: np.ndarray) -> int:
    word = f"u{ours.dtype.itemsize}"
    bits = [np.atleast_1d(array).view(word) for array in (ours, theirs)]
    return int((bits[0] != bits[1]).sum())


def _differing_rows(subject: Subject, rows: int, *, sizes: tuple[int, ...], seed: int = 0) -> int:
    rng = np.random.default_rng(seed)
    return sum(subject.differing(rng, sizes=sizes) > 0 for _ in range(rows))


def test_no_bit_depends_on_the_batch(store):
    assert _differing_rows(Subject(store), 24, sizes=(3,)) == 0


@pytest.fixture(
    scope="module",
    params=[
        ("float32", 3),
        pytest.param(("bfloat16", 3), marks=pytest.mark.long),
        pytest.param(("float32", 0), marks=pytest.mark.long),
        pytest.param(("bfloat16", 0), marks=pytest.mark.long),
    ],
    ids=lambda value: "-".join(map(str, value)),
)
def subject(request, store) -> Subject:
    dtype, level = request.param
    return Subject(store, level=level, compute_dtype=dtype)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_no_bit_of_many_random_rows_depends_on_the_batch(subject, seed):
    """Both seeds together: 500 rows of a dtype at an optimisation level."""
    assert _differing_rows(subject, 250, sizes=(2, 4, 7), seed=seed) == 0


@pytest.mark.slow
def test_no_bit_of_a_strict_row_is_another(subject):
    """Rows of a sample's very length, of each sample by itself and of several that are alike."""
    alike = [number for number in range(len(CASES)) if subject.extents(number) == subject.extents(1)]
    rows = [[number] for number in range(len(CASES))] + [alike]
    assert len(alike) > 2
    assert sum(subject.compared(row, number, slots=len(row), mode="strict") for row in rows for number in row) == 0


@pytest.mark.slow
@pytest.mark.long
def test_no_bit_of_rows_with_states_among_the_text(store):
    subject = Subject(store, cases=TEXT_CASES, base=AS_TEXT, level=3, remat="block")
    assert _differing_rows(subject, 60, sizes=(3,)) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "least"), [("float32", 20), pytest.param("bfloat16", 20, marks=pytest.mark.long)])
def test_without_the_mode_bits_do_depend_on_the_batch(dtype, least, store):
    """Or else the tests above would prove nothing."""
    differing = _differing_rows(Subject(store, numerics={}, level=3, compute_dtype=dtype), 40, sizes=(2, 4, 7))
    print(f"{dtype}: {differing} of 40 random rows differ")
    assert differing > least
