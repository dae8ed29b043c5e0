"""What the backward pass recomputes instead of keeping, layer by layer.

    none             every intermediate of every layer is kept
    block            only each layer's input is kept; its forward pass runs again
    save_attention   each layer's input and what its attention kernels computed; only the cheap rest runs again

The kernels name their outputs and log-sum-exps themselves, since only names inside a kernel's own derivative rule spare
its second run. The `reference` backend has no such rule, so that `save_attention` means `block` there.
"""

from collections.abc import Callable

import jax

from wam_jax.model.config import Remat

ATTENTION_NAMES = ("range_attention_out", "range_attention_lse")
"""What `wam_kernels` calls the residuals of every backend with a derivative rule of its own."""

_POLICIES = {
    "block": jax.checkpoint_policies.nothing_saveable,
    "save_attention": jax.checkpoint_policies.save_only_these_names(*ATTENTION_NAMES),
}


def rematerialised[**Arguments, Result](
    layer: Callable[Arguments, Result], remat: Remat
) -> Callable[Arguments, Result]:
    """The body of a scan over layers under the policy `remat`; a scan needs no guard against CSE."""
    if remat == "none":
        return layer
    return jax.checkpoint(layer, policy=_POLICIES[remat], prevent_cse=False)
