"""Who computes: what is chosen where, that it is logged once, and that a refusal says why."""

import logging

import jax.numpy as jnp
import pytest

from tests.kernels import masks
from tests.kernels.test_api import qkv
from wam_kernels import UnsupportedError, chooser, range_attention
from wam_kernels.backend import Problem
from wam_kernels.launch_table import mosaic_launches, triton_launches
from wam_kernels.target import Target, capability_of_kind, current_target

CPU, AMPERE, HOPPER, BLACKWELL = Target("cpu"), Target("gpu", (8, 0)), Target("gpu", (9, 0)), Target("gpu", (10, 0))
BFLOAT16 = Problem(1, 8192, 8192, 24, 128, jnp.dtype("bfloat16"), 5)
FLOAT32 = BFLOAT16._replace(dtype=jnp.dtype("float32"))
SMALL = FLOAT32._replace(query_tokens=128, key_tokens=128)

CHOICES = [
    (CPU, FLOAT32, "xla"),
    (CPU, SMALL, "reference"),
    (CPU, SMALL._replace(key_tokens=129), "xla"),
    (AMPERE, BFLOAT16, "pallas_triton"),
    (HOPPER, BFLOAT16, "pallas_mosaic"),
    (HOPPER, FLOAT32, "pallas_triton"),
    (BLACKWELL, BFLOAT16, "pallas_triton"),
    (Target("gpu", (7, 5)), BFLOAT16, "xla"),
    (HOPPER, BFLOAT16._replace(head_dim=192), "xla"),
    (Target("tpu"), BFLOAT16, "xla"),
]


@pytest.mark.parametrize(("target", "problem", "name"), CHOICES)
def test_the_best_backend_that_accepts_the_problem_is_chosen(target, problem, name):
    assert chooser.choose(None, problem, target, ()).name == name


REFUSALS = [
    ("pallas_mosaic", FLOAT32, HOPPER, "computes bfloat16, not float32"),
    ("pallas_mosaic", BFLOAT16, BLACKWELL, "Hopper's instructions"),
    ("pallas_mosaic", BFLOAT16, CPU, "needs a Hopper GPU"),
    ("pallas_triton", BFLOAT16, CPU, "needs an NVIDIA GPU"),
    ("pallas_triton", BFLOAT16, Target("gpu", (7, 5)), "compute capability 8.0"),
    ("pallas_triton", BFLOAT16._replace(dtype=jnp.dtype("float16")), HOPPER, "not float16"),
    ("pallas_triton", BFLOAT16._replace(head_dim=160), HOPPER, "head_dim is at most 128, not 160"),
    ("pallas_mosaic", BFLOAT16._replace(head_dim=160), HOPPER, "head_dim is at most 128, not 160"),
    ("pallas_triton", BFLOAT16._replace(rows=100), HOPPER, "2\\^31 elements"),
]


@pytest.mark.parametrize(("name", "problem", "target", "reason"), REFUSALS)
def test_a_named_backend_refuses_with_its_reason(name, problem, target, reason):
    with pytest.raises(UnsupportedError, match=f"{name} on {target.name}: .*{reason}"):
        chooser.choose(name, problem, target, ())


def test_the_entry_refuses_a_gpu_kernel_here():
    with pytest.raises(UnsupportedError, match="pallas_triton on cpu: needs an NVIDIA GPU"):
        range_attention(*qkv(), masks.segments([16], 16), implementation="pallas_triton")


def test_a_choice_is_logged_once_with_its_reason(caplog):
    chooser._log_once.cache_clear()
    with caplog.at_level(logging.INFO, "wam_kernels"):
        for _ in range(2):
            chooser.choose(None, FLOAT32, HOPPER, ())
    assert caplog.messages == [
        "range attention runs on pallas_triton for sm_90: pallas_mosaic refuses: computes bfloat16, not float32 (the "
        "tensor cores would round it); pallas_triton accepts the problem"
    ]


def test_kinds_of_devices_are_known_by_name():
    kinds = ["NVIDIA H100 80GB HBM3", "NVIDIA H200", "NVIDIA A100-SXM4-80GB", "NVIDIA GB200", "NVIDIA L4", "Radeon"]
    assert [capability_of_kind(kind) for kind in kinds] == [(9, 0), (9, 0), (8, 0), (10, 0), (8, 9), None]


def test_here_the_target_is_the_cpu():
    assert current_target() == CPU


@pytest.mark.parametrize("head_dim", [32, 64, 128])
@pytest.mark.parametrize("capability", [None, (8, 0), (8, 9), (9, 0), (12, 0)])
def test_every_target_and_head_size_has_launches(capability, head_dim):
    for dtype in (jnp.dtype("float32"), jnp.dtype("bfloat16")):
        sizes = triton_launches(capability, dtype, head_dim).sizes()
        assert all(n >= 16 and n & (n - 1) == 0 for size in sizes for n in size)
    assert mosaic_launches(head_dim).forward.query_tile % 64 == 0
