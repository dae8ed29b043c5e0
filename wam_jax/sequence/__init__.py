"""Programs, geometry, the visibility law, and where the frames of a row lie. On the host, in NumPy."""

from wam_jax.sequence.geometry import SequenceGeometry
from wam_jax.sequence.objectives import Objective
from wam_jax.sequence.text import text_visibility
from wam_jax.sequence.visibility import dense_visibility

__all__ = ["Objective", "SequenceGeometry", "dense_visibility", "text_visibility"]
