"""Who computes a call, what is refused and how, and what launches follow from."""

import logging

import jax
import jax.numpy as jnp
import pytest

from tests.kernels.invariant.operators import BACKENDS
from wam_kernels import invariant
from wam_kernels.invariant.backend import Problem
from wam_kernels.invariant.chooser import choose
from wam_kernels.invariant.launch_table import WIDEST, product_launch, row_launch
from wam_kernels.target import Target

CPU, HOPPER, AMPERE, VOLTA = Target("cpu"), Target("gpu", (9, 0)), Target("gpu", (8, 0)), Target("gpu", (7, 0))
PROBLEM = Problem("matmul", jnp.dtype(jnp.bfloat16), (256, 512), 2**20)
WIDE = Problem("mean", jnp.dtype(jnp.float32), (WIDEST + 1,), 2**20)


@pytest.mark.parametrize(
    ("problem", "target", "name"),
    [
        (PROBLEM, HOPPER, "pallas_triton"),
        (PROBLEM, AMPERE, "pallas_triton"),
        (PROBLEM, VOLTA, "xla"),
        (PROBLEM, CPU, "xla"),
        (WIDE, HOPPER, "xla"),
        (PROBLEM._replace(elements=2**31), HOPPER, "xla"),
        (PROBLEM._replace(elements=0), HOPPER, "xla"),
        (PROBLEM._replace(batch=2**16), HOPPER, "xla"),
        (PROBLEM._replace(dtype=jnp.dtype("float64")), HOPPER, "xla"),
    ],
)
def test_the_chooser(problem, target, name):
    assert choose(None, problem, target).name == name


def test_the_choice_is_logged_once(caplog):
    with caplog.at_level(logging.INFO, "wam_kernels"):
        for _ in range(2):
            choose(None, PROBLEM._replace(operator="addmm"), Target("gpu", (8, 7)))
    (record,) = caplog.records
    assert "invariant addmm runs on pallas_triton for sm_87" in record.message


def test_a_named_backend_refuses_with_its_reason():
    with pytest.raises(invariant.UnsupportedError, match="pallas_triton on cpu: needs an NVIDIA GPU"):
        invariant.matmul(jnp.ones((2, 3)), jnp.ones((3, 4)), implementation="pallas_triton")
    with pytest.raises(ValueError, match="known are xla, pallas_triton"):
        choose("cublas", PROBLEM, CPU)


def test_launches_do_not_know_the_number_of_rows():
    assert row_launch(256) == row_launch(200)
    assert row_launch(WIDEST).rows == 1
    assert all(row_launch(width).columns >= width for width in (1, 33, 1152, WIDEST))
    assert product_launch((9, 0), PROBLEM.dtype) == product_launch((10, 0), PROBLEM.dtype)
    assert product_launch((8, 6), WIDE.dtype) == product_launch((8, 0), WIDE.dtype)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: invariant.matmul(x, jnp.ones((4, 4))), "a and b have shapes"),
        (lambda x: invariant.bmm(x, x), "wanted \\[..., M, K\\]"),
        (lambda x: invariant.addmm(jnp.ones(3), x, jnp.ones((3, 4))), "bias has shape"),
        (lambda x: invariant.layer_norm(x, jnp.ones(4)), "scale has shape"),
        (lambda x: invariant.rms_norm(x, jnp.ones((2, 3))), "scale has shape"),
        (lambda x: invariant.mean(x[:, :0]), "width positive"),
        (lambda x: invariant.patch_projection(x[None], jnp.ones((8, 1, 2, 2))), "a multiple of 2"),
    ],
)
def test_wrong_shapes_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(jnp.ones((2, 3)))


def test_wrong_dtypes_are_refused():
    with pytest.raises(TypeError, match="a int32, b float32"):
        invariant.matmul(jnp.ones((2, 3), jnp.int32), jnp.ones((3, 4)))
    with pytest.raises(TypeError, match="a bfloat16, b float32"):
        invariant.matmul(jnp.ones((2, 3), jnp.bfloat16), jnp.ones((3, 4)))


def test_a_batch_of_products_is_one_kernel_and_no_plain_product():
    a, b = jnp.ones((5, 40, 16)), jnp.ones((5, 16, 8))
    jaxpr = jax.make_jaxpr(lambda a, b: invariant.bmm(a, b, implementation=BACKENDS["pallas_triton"]))(a, b)
    assert str(jaxpr).count("pallas_call[") == 1
    assert not [eqn for eqn in jaxpr.eqns if eqn.primitive.name == "dot_general"]
