"""Range attention on a real GPU: every case of the table, equal bits, and the launches of the table.

`benchmarks/on_gpu` runs these and the benchmark.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.kernels.cases import CASES, Inputs, answer, errors
from wam_kernels import Problem, build_tile_lists
from wam_kernels.chooser import choose
from wam_kernels.target import current_target
from wam_kernels.workloads import workload

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(jax.default_backend() != "gpu", reason="no GPU"),
    # JAX announces the end of the backend at every lowering; it goes with pallas_triton.
    pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated:DeprecationWarning"),
]

RUNS = [("pallas_triton", "bfloat16"), ("pallas_triton", "float32"), ("pallas_mosaic", "bfloat16")]


def backend(name, head_dim, dtype, tokens=1024):
    """The backend with the launches of the table for this GPU; skipped where it refuses the GPU."""
    problem, target = Problem(1, tokens, tokens, 1, head_dim, jnp.dtype(dtype), 6), current_target()
    if name == "pallas_mosaic" and target.capability != (9, 0):
        pytest.skip("Mosaic's kernels are for Hopper")
    return choose(name, problem, target, ())


@pytest.mark.parametrize(("name", "dtype"), RUNS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_table_of_cases(case, name, dtype):
    judged = errors(case, dtype, backend(name, case.head_dim, dtype))
    assert max(judged.values()) <= 1, judged


@pytest.mark.parametrize(("name", "dtype"), RUNS)
def test_two_runs_give_the_same_bits(name, dtype):
    row = workload("noisy_and_clean_32k" if dtype == "bfloat16" else "segments_8k")
    rng = np.random.default_rng(0)
    shape = (1, row.tokens, 2, row.head_dim)
    chosen = backend(name, row.head_dim, dtype)
    tiles = tuple(
        build_tile_lists(row.ranges, row.tokens, query_tile=size[0], key_tile=size[1]) for size in chosen.tile_sizes()
    )
    given = Inputs(*(jnp.asarray(rng.standard_normal(shape), dtype) for _ in range(4)), jnp.zeros((1, 2, row.tokens)))
    first, second = (answer(given, row.ranges, None, tiles, backend=chosen) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("name", "dtype"), RUNS)
def test_a_sample_has_the_same_bits_alone_and_in_company(name, dtype):
    """384 tokens at a boundary of every tile size, first alone, then behind 640 tokens of another sample."""
    chosen = backend(name, 128, dtype)
    rng = np.random.default_rng(1)
    own = [rng.standard_normal((1, 384, 2, 128)) for _ in range(4)]
    company = [rng.standard_normal((1, 640, 2, 128)) for _ in range(4)]

    def results(parts, lengths):
        ends = np.cumsum(lengths)
        ranges = np.concatenate(
            [np.full((1, n, 1, 2), [e - n, e], np.int32) for n, e in zip(lengths, ends, strict=True)], 1
        )
        given = Inputs(*(jnp.asarray(x, dtype) for x in parts), jnp.zeros((1, 2, ends[-1])))
        return [np.asarray(x)[:, -384:] for x in answer(given, ranges, None, None, backend=chosen)[::2]]

    together = [np.concatenate(pair, 1) for pair in zip(company, own, strict=True)]
    for a, b in zip(results(own, [384]), results(together, [640, 384]), strict=True):
        np.testing.assert_array_equal(a, b)
