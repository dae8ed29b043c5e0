"""Sequence contracts: what a sample shows in front of the frames it is trained on, and what a conditional sample is.

    default         its own leading frames, the history, without video loss
    context_frame   its first frame, outside of both losses
    prefix_frame    one clean frame that the model prepends, outside of the sample's own frame numbers

A conditional sample (one stream given clean) overrides all three: frame 0 is observed and a chunk of its own, and the
frames behind it are the targets.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from wam_jax.sequence.objectives import CONDITIONAL_WINDOW

NO_SINGLETON = -1
"""The singleton frame of a sample that has none, in arrays."""


@dataclass(frozen=True)
class SequenceContract:
    """One way to begin a sample.

    Attributes:
        name: what a configuration writes.
        context_frames: leading frames of a sample that neither loss covers.
        prefix_frames: clean frames that the model prepends.
        frame_states: whether tokens are given proprioception, from sources with a state at every frame.
    """

    name: str
    context_frames: int = 0
    prefix_frames: int = 0
    frame_states: bool = False


CONTRACTS: dict[str, SequenceContract] = {
    contract.name: contract
    for contract in (
        SequenceContract("default"),
        SequenceContract("context_frame", context_frames=1, frame_states=True),
        SequenceContract("prefix_frame", prefix_frames=1, frame_states=True),
    )
}

ALIASES = {
    "rollout_parity_single_frame_perchunk_proprio": "context_frame",
    "legacy_prefix_single_frame_perchunk_proprio": "prefix_frame",
}
"""Names of the reference implementation."""


def sequence_contract(name: str) -> SequenceContract:
    """The contract of this name or alias."""
    return CONTRACTS[ALIASES.get(name, name)]


CONDITIONAL_LAYOUT: Mapping[str, int] = {
    "history_frames": 1,
    "window_size": CONDITIONAL_WINDOW,
    "chunk_origin": 1,
    "singleton_frame": 0,
    "prefix_frames": 0,
}
"""What every conditional sample has; its losses cover the frames from 1 on, and its earlier chunks are read through the
one clean video frame before the query's chunk."""
