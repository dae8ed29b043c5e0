"""Rows over devices: each computes its own, with no collective; four devices in a process of their own."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import re
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from tests.kernels import masks
from wam_kernels import build_tile_lists, range_attention, sharded_range_attention

mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "fsdp"))
rng = np.random.default_rng(0)
ranges = masks.random_ranges(rng, 4, 96, 96, 2)
tiles = build_tile_lists(ranges, 96, query_tile=32, key_tile=32)
q, k, v = (jnp.asarray(rng.standard_normal((4, 96, 2, 32)), jnp.float32) for _ in range(3))

def loss(attend, **options):
    def value(q, k, v, ranges, tiles):
        out, lse = attend(q, k, v, ranges, tiles=tiles, implementation="xla", return_lse=True, **options)
        return out.sum() + jnp.where(jnp.isfinite(lse), lse, 0).sum()
    return jax.value_and_grad(value, (0, 1, 2))

spread = loss(sharded_range_attention, mesh=mesh, row_axes=("data", "fsdp"))
rows = NamedSharding(mesh, PartitionSpec(("data", "fsdp")))
compiled = jax.jit(spread).lower(*jax.device_put((q, k, v, ranges, tiles), rows)).compile()
got = compiled(*jax.device_put((q, k, v, ranges, tiles), rows))
expected = jax.jit(loss(range_attention))(q, k, v, ranges, tiles)
np.testing.assert_allclose(got[0], expected[0], rtol=1e-5)
for a, b in zip(got[1], expected[1]):
    np.testing.assert_array_equal(a, b)
found = set(re.findall(r"\\b(all-gather|all-to-all|collective-permute)", compiled.as_text()))
print("moved rows:", sorted(found))
"""


@pytest.mark.slow
def test_every_device_computes_its_own_rows():
    flags = "--xla_force_host_platform_device_count=4 --xla_backend_optimization_level=0"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        env=os.environ | {"XLA_FLAGS": flags},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "moved rows: []"
