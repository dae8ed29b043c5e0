"""Launches for each target, dtype and head size.

Provenance: chosen on 2026-11-29 by compiling candidates ahead of time (jax 0.12.0.1, ptxas 12.9.86; 24 heads, 32,768
tokens, R = 6 with valid bits), the largest tiles that spill nothing. No GPU has measured them yet:
`python -m wam_kernels.tune` prints rows to put here. Float32 is multiplied without tensor cores; its launches are there
to be right, not fast.
"""

import jax.numpy as jnp

from wam_kernels.launch import Launch, Launches

_AMPERE, _HOPPER = (8, 0), (9, 0)


def _alike(launch: Launch) -> Launches:
    return Launches(forward=launch, dq=launch, dkv=launch)


_TRITON_BFLOAT16 = {
    (_HOPPER, 128): Launches(Launch(128, 128, 8, 2), Launch(128, 128, 8, 2), Launch(64, 128, 8, 2)),
    (_HOPPER, 64): _alike(Launch(128, 128, 8, 2)),
    (_HOPPER, 32): _alike(Launch(128, 128, 8, 2)),
    (_AMPERE, 128): Launches(Launch(128, 64, 8, 2), Launch(64, 128, 8, 2), Launch(128, 64, 8, 2)),
    (_AMPERE, 64): Launches(Launch(128, 64, 8, 2), Launch(128, 64, 8, 2), Launch(32, 128, 8, 2)),
    (_AMPERE, 32): _alike(Launch(64, 64, 4, 2)),
}

_TRITON_FLOAT32 = {
    (_HOPPER, 128): _alike(Launch(32, 32, 8, 2)),
    (_HOPPER, 64): _alike(Launch(32, 32, 8, 1)),
    (_HOPPER, 32): _alike(Launch(32, 32, 8, 2)),
    (_AMPERE, 128): _alike(Launch(32, 32, 8, 2)),
    (_AMPERE, 64): _alike(Launch(32, 32, 8, 2)),
    (_AMPERE, 32): _alike(Launch(32, 32, 8, 2)),
}

_MOSAIC = Launches(Launch(128, 128, 2, 2), Launch(128, 64, 2, 2), Launch(64, 128, 2, 2))


def triton_launches(capability: tuple[int, int] | None, dtype: jnp.dtype, head_dim: int) -> Launches:
    """For a head size of 32, 64 or 128. A capability between two that were measured takes the lower one's launches."""
    base = _HOPPER if capability is not None and capability >= _HOPPER else _AMPERE
    return (_TRITON_FLOAT32 if dtype == jnp.float32 else _TRITON_BFLOAT16)[base, head_dim]


def mosaic_launches(head_dim: int) -> Launches:
    """For a head size of 32, 64 or 128: the same for all three."""
    del head_dim
    return _MOSAIC
