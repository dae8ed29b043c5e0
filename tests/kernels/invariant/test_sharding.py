"""Rows over devices: each loops over its own, and gradients of parameters alone are summed; on four devices."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import re
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from wam_kernels.invariant import sharded_tokenwise, tokenwise

mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "fsdp"))
rng = np.random.default_rng(0)
w, x = (rng.standard_normal(shape, np.float32) for shape in ((24, 24), (8, 40, 24)))

def gradient(run, **options):
    loss = lambda w, x: (run(lambda w, x: jnp.tanh(x @ w), w, x, tile=16, **options) ** 2).sum()
    return jax.grad(loss, (0, 1))

spread = gradient(sharded_tokenwise, mesh=mesh, row_axes=("data", "fsdp"))
x_spread = jax.device_put(x, NamedSharding(mesh, PartitionSpec(("data", "fsdp"))))
w_spread = jax.device_put(w, NamedSharding(mesh, PartitionSpec()))
compiled = jax.jit(spread).lower(w_spread, x_spread).compile()
got, expected = compiled(w_spread, x_spread), jax.jit(gradient(tokenwise))(w, x)
np.testing.assert_allclose(got[0], expected[0], rtol=1e-4, atol=1e-4)
np.testing.assert_array_equal(got[1], expected[1])
text = compiled.as_text()
print("collectives:", sorted(set(re.findall(r"all-gather|all-to-all|collective-permute|all-reduce(?=[(-])", text))))
"""


@pytest.mark.slow
def test_every_device_loops_over_its_own_rows():
    flags = "--xla_force_host_platform_device_count=4 --xla_backend_optimization_level=0"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        env=os.environ | {"XLA_FLAGS": flags},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "collectives: ['all-reduce']"
