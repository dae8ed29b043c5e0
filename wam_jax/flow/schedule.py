"""The grid of a flow-matching schedule: timesteps, noise levels and training weights.

    r_i = 1 - i / N        sigma_i = S r_i / (1 + (S - 1) r_i)        t_i = N sigma_i        i = 0 ... N - 1
    y_i = exp(-2 ((t_i - N / 2) / N)^2)        w_i = N (y_i - min y) / sum_j (y_j - min y)

The grid runs from sigma = 1 downwards and does not contain 0: the timestep 0 of a clean token is nearest to the last
entry, `clean_index`, whose noise level and weight it is looked up with. The mean weight is 1 and the weight of pure
noise exactly 0. Built in float64, rounded to float32 once.
"""

from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

_TIE_DIGITS = 10


@dataclass(frozen=True)
class FlowSchedule:
    """A schedule of `num_timesteps` N entries, moved towards noise by `shift` S."""

    num_timesteps: int
    shift: float

    @cached_property
    def _sigmas(self) -> np.ndarray:
        remaining = 1 - np.arange(self.num_timesteps) / self.num_timesteps
        return self.shift * remaining / (1 + (self.shift - 1) * remaining)

    @property
    def sigmas(self) -> np.ndarray:
        """float32[N], noise levels from 1 downwards."""
        return self._sigmas.astype(np.float32)

    @property
    def timesteps(self) -> np.ndarray:
        """float32[N], N times the noise levels."""
        return (self.num_timesteps * self._sigmas).astype(np.float32)

    @property
    def weights(self) -> np.ndarray:
        """float32[N], training weights, mean 1."""
        bell = np.exp(-2 * (self._sigmas - 0.5) ** 2)
        above = bell - bell.min()
        return (self.num_timesteps * above / above.sum()).astype(np.float32)

    @property
    def clean_index(self) -> int:
        """The entry that stands for timestep 0."""
        return self.num_timesteps - 1

    def indices(self, unit: jax.Array, low: float = 0.0) -> jax.Array:
        """Grid indices of uniform numbers: float32[...] in [0, 1), squeezed into [low, 1), to int32[...]."""
        scaled = (low + unit * (1 - low)) * self.num_timesteps
        return jnp.clip(scaled, 0, self.num_timesteps - 1).astype(jnp.int32)

    def nearest_in(self, other: "FlowSchedule") -> np.ndarray:
        """The entry of another grid nearest in noise level to each of ours: int32[N], the first of equally near ones.

        Distances are rounded before they are compared, so that a true tie is one whatever float64 makes of it.
        """
        distance = np.abs(self._sigmas[:, None] - other._sigmas[None, :])
        return distance.round(_TIE_DIGITS).argmin(1).astype(np.int32)
