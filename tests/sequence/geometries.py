"""Random geometries that reach the corners of the visibility law."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from wam_jax.sequence.geometry import HISTORIES, SequenceGeometry
from wam_jax.sequence.programs import PROGRAMS


def random_fields(rng: np.random.Generator) -> dict[str, Any]:
    """Keyword arguments of one geometry."""
    frames, slots = int(rng.integers(1, 11)), int(rng.integers(1, 4))
    return {
        "num_frames": frames,
        "video_tokens_per_frame": int(rng.integers(1, 4)),
        "actions_per_frame": slots,
        "chunk_size": int(rng.integers(1, 6)),
        "window_size": int(rng.integers(0, 12)),
        "program": str(rng.choice(list(PROGRAMS))),
        "history": str(rng.choice(HISTORIES)),
        "prefix_frames": int(rng.integers(0, 2)),
        "chunk_origin": int(rng.integers(0, frames + 1)),
        "singleton_frame": int(rng.integers(0, frames)) if rng.random() < 0.4 else None,
        "boundary_only": bool(rng.random() < 0.3),
        "action_valid": rng.random(frames * slots) < 0.7 if rng.random() < 0.5 else None,
    }


def random_geometries(count: int, *, seed: int, **fixed: Any) -> Iterator[SequenceGeometry]:
    """`count` geometries; `fixed` fields override the random ones."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield SequenceGeometry(**(random_fields(rng) | fixed))
