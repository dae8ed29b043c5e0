"""Launches for each target, dtype and head size.

Provenance: chosen on 2026-11-29 by compiling every candidate ahead of time (jax 0.12.0.1, ptxas 12.9.86) for 24 heads
and 32,768 tokens, R = 6 with valid bits, and taking the largest tiles that spill nothing in bfloat16. No GPU has
measured them yet: `python -m wam_kernels.tune` prints rows to put here. Float32 is multiplied without tensor cores and
spills at any useful size with 128 a head; it is here to be right, not fast.
"""

import jax.numpy as jnp

from wam_kernels.launch import Launch, Launches

_AMPERE, _HOPPER = (8, 0), (9, 0)

_TRITON_BFLOAT16 = {
    (_HOPPER, 128): Launches(Launch(128, 128, 8, 2), Launch(128, 128, 8, 2), Launch(64, 128, 8, 2)),
    (_HOPPER, 64): Launches(Launch(128, 128, 8, 2), Launch(128, 128, 8, 2), Launch(128, 128, 8, 2)),
    (_HOPPER, 32): Launches(Launch(128, 128, 8, 2), Launch(128, 128, 8, 2), Launch(128, 128, 8, 2)),
    (_AMPERE, 128): Launches(Launch(128, 64, 8, 2), Launch(64, 128, 8, 2), Launch(128, 64, 8, 2)),
    (_AMPERE, 64): Launches(Launch(128, 64, 8, 2), Launch(128, 64, 8, 2), Launch(64, 64, 8, 2)),
    (_AMPERE, 32): Launches(Launch(64, 64, 4, 2), Launch(64, 64, 4, 2), Launch(64, 64, 4, 2)),
}

_TRITON_FLOAT32 = Launches(Launch(32, 32, 4, 1), Launch(32, 32, 4, 1), Launch(32, 32, 4, 1))

_MOSAIC = Launches(Launch(128, 128, 2, 2), Launch(128, 64, 2, 2), Launch(64, 128, 2, 2))


def triton_launches(capability: tuple[int, int] | None, dtype: jnp.dtype, head_dim: int) -> Launches:
    """For a head size of 32, 64 or 128. A capability between two that were measured takes the lower one's launches."""
    if dtype == jnp.float32:
        return _TRITON_FLOAT32
    base = _HOPPER if capability is not None and capability >= _HOPPER else _AMPERE
    return _TRITON_BFLOAT16[base, head_dim]


def mosaic_launches(head_dim: int) -> Launches:
    """For a head size of 32, 64 or 128: the same for all three."""
    del head_dim
    return _MOSAIC
