"""Which dtypes the traced network computes in, and the arrays that must never exist."""

from typing import Any

import jax
import numpy as np
import pytest

from tests.model.rows import random_params, random_row, tiny, velocities
from tests.model.tracing import equations

HALF = tiny(compute_dtype="bfloat16")
LARGEST_FRAMES = 6


@pytest.fixture(scope="module")
def traced() -> list[Any]:
    """All equations of the bfloat16 network over float32 parameters."""
    row = random_row(HALF)
    return list(equations(jax.make_jaxpr(lambda p: velocities(HALF, p, row))(random_params(HALF)).jaxpr))


def test_no_array_of_six_vectors_a_token_exists(traced: list[Any]) -> None:
    widths = (HALF.video.width, HALF.action.width)
    shapes = {out.aval.shape for eqn in traced for out in eqn.outvars}
    six = [shape for shape in shapes if len(shape) > 1 and shape[-2] == 6 and shape[-1] in widths]
    assert six
    assert all(np.prod(shape[:-2]) <= LARGEST_FRAMES for shape in six)


def test_linear_layers_multiply_in_the_compute_dtype(traced: list[Any]) -> None:
    kernels = [eqn for eqn in traced if eqn.primitive.name == "dot_general" and eqn.invars[1].aval.ndim == 2]
    assert len(kernels) > 20
    assert {v.aval.dtype.name for eqn in kernels for v in (*eqn.invars, *eqn.outvars)} == {"bfloat16"}


def test_norms_are_computed_in_float32(traced: list[Any]) -> None:
    roots = [eqn.outvars[0].aval for eqn in traced if eqn.primitive.name == "rsqrt"]
    assert len(roots) >= 2 * (2 + 4 + 1)  # a block's plain norms, query and key norms, cross norm, for either expert
    assert {aval.dtype.name for aval in roots} == {"float32"}


def test_angles_of_timesteps_are_float32(traced: list[Any]) -> None:
    assert {eqn.outvars[0].aval.dtype.name for eqn in traced if eqn.primitive.name in ("cos", "sin")} == {"float32"}
