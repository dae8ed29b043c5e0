"""The gate for the invariant operators: their kernels compile, spill nothing, and use the tensor cores where they may.

Needs the ahead-of-time environment, which `.ci/aot` makes.
"""

import importlib.util
import os

import jax
import jax.numpy as jnp
import pytest

from tests.aot.builds import spec
from wam_kernels import invariant
from wam_kernels.deviceless import GPUS, deviceless
from wam_kernels.invariant.formulas import Norm
from wam_kernels.invariant.launch_table import WIDEST
from wam_kernels.invariant.pallas_triton import PallasTriton
from wam_kernels.resources import kernel_resources
from wam_kernels.target import current_target

# The tests' own default of XLA_FLAGS turns optimisation off, and every launch would spill.
READY = importlib.util.find_spec("jax_plugins") is not None and os.environ.get("XLA_FLAGS") == ""

pytestmark = [
    pytest.mark.aot,
    pytest.mark.skipif(not READY, reason="run by .ci/aot, in an environment of its own"),
    # JAX announces the end of the backend at every lowering; it goes with pallas_triton.
    pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated:DeprecationWarning"),
]

GPU = ("h100", "a100")
DTYPES = ("bfloat16", "float32")
TENSOR_CORE = {"h100": "wgmma.mma_async", "a100": "mma.sync"}
ROWS, INNER, OUT = 8192, 1536, 4096
WIDTHS = (256, 1536, WIDEST)


def products(backend, array):
    """Each product kernel by what it is for, as functions without arguments."""
    a, b, bias, upstream = array(ROWS, INNER), array(INNER, OUT), array(OUT), array(ROWS, OUT)
    members = array(8, 512, INNER), array(8, INNER, 512)
    return {
        "matmul": (lambda a, b: backend.product(a, b, None), a, b),
        "addmm": (backend.product, a, b, bias),
        "bmm": (lambda a, b: backend.product(a, b, None), *members),
        "row gradient": (lambda u, b: backend.product(u, b, None, contract_last=True), upstream, b),
        "weight gradient": (backend.weight_gradient, a, upstream),
    }


def row_kernels(backend, array, width):
    """Each kernel over whole rows, likewise."""
    x, vector = array(ROWS, width), array(width)
    norms = [Norm(width, 1e-6, centred) for centred in (True, False)]
    return {
        "layer norm": (lambda x, s, b: backend.normalise(x, s, b, norms[0]), x, vector, vector),
        "rms norm": (lambda x, s: backend.normalise(x, s, None, norms[1]), x, vector),
        "layer norm gradient": (lambda x, s, u: backend.normalise_gradients(x, s, norms[0], u), x, vector, x),
        "rms norm gradient": (lambda x, s, u: backend.normalise_gradients(x, s, norms[1], u), x, vector, x),
        "log softmax": (backend.log_softmax, x),
        "log softmax gradient": (backend.log_softmax_gradient, x, x),
        "mean": (backend.mean, x),
        "row sum": (backend.row_sum, x),
    }


def check(table, gpu, dtype, use, kernels_of):
    """Compiles what `kernels_of(backend, array)` names and returns the costs."""
    with deviceless(gpu) as mesh:
        backend = PallasTriton().resolve(current_target())
        function, *operands = kernels_of(backend, lambda *shape: spec(mesh, shape, dtype))
        found = {k: v for k, v in kernel_resources(function, *operands).items() if k.startswith("invariant_")}
    assert found
    for cost in found.values():
        label = f"{gpu} invariant     {use:28} {dtype:8}"
        table.append(f"{label} {cost.registers:4} {cost.spilled_bytes:4} {cost.shared_memory:7}")
        assert cost.spilled_bytes == 0
        assert not cost.serialized_wgmma
        assert cost.shared_memory <= GPUS[gpu].shared_memory_per_block
        assert cost.instructions[".tf32"] == 0
    return found


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("gpu", GPU)
@pytest.mark.parametrize("use", ["matmul", "addmm", "bmm", "row gradient", "weight gradient"])
def test_products(table, use, gpu, dtype):
    (cost,) = check(table, gpu, dtype, use, lambda backend, array: products(backend, array)[use]).values()
    if dtype == "bfloat16":
        assert cost.instructions[TENSOR_CORE[gpu]] > 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("gpu", GPU)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "use", ["layer norm", "layer norm gradient", "rms norm gradient", "log softmax", "log softmax gradient", "mean"]
)
def test_row_kernels(table, use, width, gpu, dtype):
    check(table, gpu, dtype, f"{use} {width}", lambda backend, array: row_kernels(backend, array, width)[use])


@pytest.mark.parametrize("gpu", GPU)
@pytest.mark.parametrize("use", ["rms norm", "row sum"])
def test_the_other_row_kernels(table, use, gpu):
    check(table, gpu, "bfloat16", f"{use} 1536", lambda backend, array: row_kernels(backend, array, 1536)[use])


def test_a_batch_of_products_is_one_kernel():
    with deviceless("h100") as mesh:
        a, b = spec(mesh, (6, 100, 64), "bfloat16"), spec(mesh, (6, 64, 200), "bfloat16")
        text = str(jax.jit(invariant.bmm).lower(a, b).compile().as_text())
    assert text.count('custom_call_target="__gpu$xla.gpu.triton"') == 1
    assert " while(" not in text


def test_the_gradient_of_addmm_has_no_product_of_xla_s_own():
    def loss(bias, a, b):
        return invariant.addmm(bias, a, b).astype(jnp.float32).sum()

    with deviceless("h100") as mesh:
        shapes = (OUT,), (ROWS, INNER), (INNER, OUT)
        lowered = jax.jit(jax.grad(loss, (0, 1, 2))).lower(*(spec(mesh, shape, "bfloat16") for shape in shapes))
        text = str(lowered.compile().as_text())
    assert text.count('custom_call_target="__gpu$xla.gpu.triton"') == 3
    assert " dot(" not in text
    assert "cublas" not in text


@pytest.mark.parametrize("tokens", [64, 640])
def test_the_loop_of_tokenwise_stays_a_loop(tokens):
    def run(w, x):
        return invariant.tokenwise(lambda w, x: jnp.tanh(x @ w), w, x, tile=64)

    with deviceless("h100") as mesh:
        w, x = spec(mesh, (64, 64), "float32"), spec(mesh, (1, tokens, 64), "float32")
        text = str(jax.jit(run).lower(w, x).compile().as_text())
    assert text.count(" while(") == 1
    assert "known_trip_count" not in text
