"""How much a run computes for each real token, from its traced programs and the tiles that its first rows visit.

A token is one of self-attention, both copies of both streams, as utilisation counts them; what padding costs is spread
over the real ones. Operations are those that are run: recomputation counts.

Attention over tiles is a loop over data, which no trace counts. Of N pairs of a query and a key in the tiles visited,
one matrix product takes 2 N (heads x head_dim) operations; the forward pass has two (scores, output), run again where
`remat` does so, and the backward pass five (scores, and the gradients of probabilities, values, queries and keys).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import numpy as np

from wam_jax.data.batching.counts import real_tokens
from wam_jax.planning.abstract import AbstractRun
from wam_jax.planning.tracing import matmul_flops
from wam_kernels import TileLists

_FORWARD, _BACKWARD = 2, 5


@dataclass(frozen=True)
class Work:
    """Floating-point operations for each real token.

    Attributes:
        matmul: of matrix products, over all calls that the rungs were chosen for.
        attention: of attention over tiles, from the first rank's rows of the first update.
    """

    matmul: float
    attention: float

    @property
    def total(self) -> float:
        """Both."""
        return self.matmul + self.attention


def work_of(run: AbstractRun) -> Work:
    """The work of a run; reads the samples of a few rows."""
    return Work(_matmul(run), _attention(run))


def _matmul(run: AbstractRun) -> float:
    shapes = run.data.shapes
    used = [rung for rung, calls in enumerate(shapes.calls) if calls]
    flops = {rung: matmul_flops(run.traced_gradient(rung).jaxpr.jaxpr) for rung in used}
    return run.mesh.size * sum(shapes.calls[rung] * flops[rung] for rung in used) / shapes.expected.tokens


def _attention(run: AbstractRun) -> float:
    backbone, constants = run.config.backbone, run.data.constants
    tokens = real_tokens(run.data.planner.plan(0).draws[:, :1], constants).tokens
    tiles = [batch.tiles for batch in run.data.step_maker()(0).batches]
    pairs = sum(_pairs(lists) for row in tiles for lists in (row.joint, row.video_text, row.action_text))
    products = _FORWARD * (2 if backbone.remat == "block" else 1) + _BACKWARD
    width = backbone.num_heads * backbone.head_dim
    return 2 * products * pairs * width * backbone.num_layers / tokens


def _pairs(lists: Sequence[TileLists]) -> float:
    """Pairs in the tiles visited, the mean of the tile sizes that the kernels read."""
    visited = [np.sum(jax.device_get(each.by_query.bounds)[:, -1, -1]) * np.prod(each.size) for each in lists]
    return float(np.mean(visited)) if visited else 0.0
