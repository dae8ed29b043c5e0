"""The gate without a GPU: every kernel compiles for its targets, spills nothing, and uses the tensor cores.

Needs the ahead-of-time environment, which `.ci/aot` makes.
"""

import importlib.util
import os

import jax
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from tests.aot.builds import HEADS, resources
from wam_kernels import range_attention, sharded_range_attention
from wam_kernels.deviceless import GPUS, deviceless
from wam_kernels.launch import Launch, Launches
from wam_kernels.pallas_mosaic import PallasMosaic
from wam_kernels.pallas_triton import PallasTriton

# The tests' own default of XLA_FLAGS turns optimisation off, and every launch would spill.
READY = importlib.util.find_spec("jax_plugins") is not None and os.environ.get("XLA_FLAGS") == ""

pytestmark = [
    pytest.mark.aot,
    pytest.mark.skipif(not READY, reason="run by .ci/aot, in an environment of its own"),
    # JAX announces the end of the backend at every lowering; it goes with pallas_triton.
    pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated:DeprecationWarning"),
]

TENSOR_CORE = {
    ("h100", "bfloat16"): "wgmma.mma_async",
    ("a100", "bfloat16"): "mma.sync",
}

KERNELS = ("forward", "dq", "dkv")
VARIANTS = [(6, True), (2, False)]
"""Ranges and valid bits: the most a model needs, and the least."""

TRITON = [
    (gpu, head_dim, dtype, variant)
    for gpu in ("h100", "a100")
    for head_dim, dtype, variants in (
        (128, "bfloat16", VARIANTS),
        (64, "bfloat16", VARIANTS[:1]),
        (32, "bfloat16", VARIANTS[:1]),
        (128, "float32", VARIANTS[:1]),
        (64, "float32", VARIANTS[:1]),
    )
    for variant in variants
]
MOSAIC = [(128, VARIANTS[0]), (128, VARIANTS[1]), (64, VARIANTS[0]), (32, VARIANTS[0])]


def check(table, backend, gpu, kernel, head_dim, dtype, variant):
    ranges, valid = variant
    with deviceless(gpu) as mesh:
        cost = resources(mesh, backend, kernel, head_dim, dtype, ranges, valid=valid)
    label = f"{gpu} {backend.name:13} D={head_dim:<3} {dtype:8} R={ranges} {'valid' if valid else '     '} {kernel:7}"
    table.append(f"{label} {cost.registers:4} {cost.spilled_bytes:4} {cost.shared_memory:7}")
    assert cost.spilled_bytes == 0
    assert not cost.serialized_wgmma
    assert cost.shared_memory <= GPUS[gpu].shared_memory_per_block
    assert cost.instructions[".tf32"] == 0
    if dtype == "bfloat16":
        assert cost.instructions[TENSOR_CORE[gpu, dtype]] > 0


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("gpu", "head_dim", "dtype", "variant"), TRITON)
def test_triton(table, gpu, head_dim, dtype, variant, kernel):
    check(table, PallasTriton(), gpu, kernel, head_dim, dtype, variant)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("head_dim", "variant"), MOSAIC)
def test_mosaic(table, head_dim, variant, kernel):
    check(table, PallasMosaic(), "h100", kernel, head_dim, "bfloat16", variant)


def test_a_launch_that_spills_would_be_seen():
    launch = Launch(128, 128, 4, 2)
    with deviceless("h100") as mesh:
        cost = resources(mesh, PallasTriton(Launches(launch, launch, launch)), "dkv", 128, "bfloat16", 2, valid=False)
    assert cost.spilled_bytes > 0
    assert cost.serialized_wgmma


def gradient(attend, **options):
    def loss(q, k, v, ranges):
        return attend(q, k, v, ranges, **options).astype("float32").sum()

    return jax.grad(loss, (0, 1, 2))


@pytest.mark.parametrize(
    ("gpu", "dtype", "call"), [("h100", "bfloat16", "mosaic_gpu_v2"), ("a100", "float32", "__gpu$xla.gpu.triton")]
)
def test_the_kernels_of_the_target_are_in_the_gradient(gpu, dtype, call):
    with deviceless(gpu) as mesh:
        sharding = NamedSharding(mesh, PartitionSpec())
        x = jax.ShapeDtypeStruct((1, 4096, 2, 128), dtype, sharding=sharding)
        ranges = jax.ShapeDtypeStruct((1, 4096, 2, 2), "int32", sharding=sharding)
        text = jax.jit(gradient(range_attention)).lower(x, x, x, ranges).compile().as_text()
    assert str(text).count(f'custom_call_target="{call}"') == 3


@pytest.mark.parametrize("implementation", ["pallas_triton", "pallas_mosaic"])
def test_eight_devices_compute_their_own_rows(implementation):
    with deviceless("h100", axes=("data", "fsdp"), shape=(2, 4)) as mesh:
        rows = NamedSharding(mesh, PartitionSpec(("data", "fsdp")))
        x = jax.ShapeDtypeStruct((8, 2048, HEADS, 128), "bfloat16", sharding=rows)
        ranges = jax.ShapeDtypeStruct((8, 2048, 2, 2), "int32", sharding=rows)
        spread = gradient(sharded_range_attention, mesh=mesh, row_axes=("data", "fsdp"), implementation=implementation)
        text = jax.jit(spread).lower(x, x, x, ranges).compile().as_text()
    assert not any(name in str(text) for name in ("all-gather", "all-reduce", "all-to-all", "collective-permute"))
