"""Operators, and a loop for any token-wise segment, whose rows do not depend on other rows, bit by bit.

`matmul`, `addmm`, `bmm`, `patch_projection`, `layer_norm`, `rms_norm`, `log_softmax` and `mean` give a row the same
bits whatever the number of rows, the neighbours' values or the members of a batch; so do the gradients of rows.
`tokenwise` (over several devices `sharded_tokenwise`) extends that to a function of one's own, tile by tile. Gradients
of weights are sums over fixed tiles in order.
"""

from wam_kernels.backend import UnsupportedError
from wam_kernels.invariant.api import (
    addmm,
    bmm,
    layer_norm,
    log_softmax,
    matmul,
    mean,
    patch_projection,
    rms_norm,
)
from wam_kernels.invariant.tokenwise import sharded_tokenwise, tokenwise
from wam_kernels.invariant.xla import TiledXla

__all__ = [
    "TiledXla",
    "UnsupportedError",
    "addmm",
    "bmm",
    "layer_norm",
    "log_softmax",
    "matmul",
    "mean",
    "patch_projection",
    "rms_norm",
    "sharded_tokenwise",
    "tokenwise",
]
