"""What the backward pass recomputes instead of keeping, layer by layer.

    none             every intermediate of every layer is kept
    block            only each layer's input is kept; its forward pass runs again
    save_attention   each layer's input and what its attention kernels computed; only the cheap rest runs again
    offload          what save_attention keeps, but in the host's memory, copied there and back while layers run

The kernels name their outputs and log-sum-exps themselves, since only names inside a kernel's own derivative rule spare
its second run. The `reference` backend has no such rule, so that `save_attention` means `block` there.
"""

from collections.abc import Callable
from typing import Any

import jax
from jax.ad_checkpoint import checkpoint_name

from wam_jax.model.config import Remat
from wam_jax.model.shards import has_parts, whole

ATTENTION_NAMES = ("range_attention_out", "range_attention_lse")
"""What `wam_kernels` calls the residuals of every backend with a derivative rule of its own."""

_INPUT = "layer_input"

_POLICIES = {
    "block": jax.checkpoint_policies.nothing_saveable,
    "save_attention": jax.checkpoint_policies.save_only_these_names(*ATTENTION_NAMES),
    "offload": jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[],
        names_which_can_be_offloaded=[_INPUT, *ATTENTION_NAMES],
        offload_src="device",
        offload_dst="pinned_host",
    ),
}


def rematerialised[Carry, Result](
    layer: Callable[[Carry, Any], Result], remat: Remat
) -> Callable[[Carry, Any], Result]:
    """The body of a scan over layers, (carry, blocks of the layer), under the policy `remat`.

    Blocks whose kernels are split over devices are made whole inside, and always anew for the backward pass. A scan
    needs no guard against CSE.
    """

    def gathering(carry: Carry, blocks: Any) -> Result:
        # Everything is computed from the named input, so that where it is offloaded nothing of it stays behind.
        named = jax.tree.map(lambda x: checkpoint_name(x, _INPUT), carry)
        return layer(named, whole(blocks))

    def body(carry: Carry, blocks: Any) -> Result:
        if remat == "none" and not has_parts(blocks):
            return layer(carry, blocks)
        return jax.checkpoint(gathering, policy=_POLICIES.get(remat, _keeps_all_but_kernels), prevent_cse=False)(
            carry, blocks
        )

    return body


def _keeps_all_but_kernels(primitive: Any, *_: Any, **__: Any) -> bool:
    """The policy of "none" where kernels are split: every intermediate but what was gathered."""
    return primitive.name != "all_gather"
