"""The boundary between batches and architectures.

An architecture takes part in batched training by saying which batching modes it executes and by running a row batch in
one combined call. There is no serial fallback: what it does not declare is refused before it is built.
"""

from typing import Any, Protocol

import jax

from wam_jax.data.transport import RowBatch
from wam_jax.errors import InputError

type Params = dict[str, Any]


class TrainPolicy(Protocol):
    """An architecture that can be trained on row batches.

    A rank of several calls it inside `jax.shard_map`: the batch then has its rows, and kernels may be the rank's parts
    of them, which the architecture makes whole where it uses them (`wam_jax.model.shards`).
    """

    @property
    def supported_batching_modes(self) -> frozenset[str]:
        """Batching modes whose rows the architecture executes."""
        ...

    def init(self, key: jax.Array) -> Params:
        """Fresh parameters as a nested dict of arrays; may be traced."""
        ...

    def forward_train_batch(
        self, params: Params, batch: RowBatch, *, zero_prediction: bool = False
    ) -> dict[str, jax.Array]:
        """Losses and metrics of each sample in its slot's place: float32[R, S] each, `loss` among them."""
        ...


def check_batching_mode(policy: TrainPolicy, mode: str) -> None:
    """Refuses a batching mode that the architecture does not execute."""
    if mode not in policy.supported_batching_modes:
        supported = ", ".join(sorted(policy.supported_batching_modes)) or "none"
        raise InputError("data.batching.mode", mode, f"{type(policy).__name__} executes: {supported}")
