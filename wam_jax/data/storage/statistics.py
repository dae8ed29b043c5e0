"""Mean, deviation and range of a field per dimension, gathered episode by episode."""

from dataclasses import dataclass

import numpy as np

from wam_jax.data.storage.manifest import FieldStatistics


@dataclass(frozen=True)
class Moments:
    """Moments of the values seen so far, one of each per dimension `[dim]`, float64.

    Attributes:
        count: how many values.
        mean: their mean.
        squares: the sum of squared differences from `mean`.
        low, high: their range.
    """

    count: np.ndarray
    mean: np.ndarray
    squares: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, mask: np.ndarray | None = None) -> "Moments":
        """Moments of `values [rows, dim]`; entries whose `mask` is 0 do not count."""
        values = values.astype(np.float64)
        present = np.ones(values.shape, bool) if mask is None else mask > 0
        count = present.sum(axis=0)
        mean = np.where(present, values, 0).sum(axis=0) / np.maximum(count, 1)
        squares = np.where(present, (values - mean) ** 2, 0).sum(axis=0)
        low = np.where(present, values, np.inf).min(axis=0, initial=np.inf)
        high = np.where(present, values, -np.inf).max(axis=0, initial=-np.inf)
        return cls(count=count, mean=mean, squares=squares, low=low, high=high)

    def merge(self, other: "Moments") -> "Moments":
        """Moments of both sets of values, by the pairwise update of Chan, Golub and LeVeque (1983)."""
        count = self.count + other.count
        share = other.count / np.maximum(count, 1)
        step = other.mean - self.mean
        return Moments(
            count=count,
            mean=self.mean + step * share,
            squares=self.squares + other.squares + step**2 * self.count * share,
            low=np.minimum(self.low, other.low),
            high=np.maximum(self.high, other.high),
        )

    def summary(self) -> FieldStatistics:
        """For the manifest; a dimension without any value has mean, deviation and range 0."""
        seen = self.count > 0
        return FieldStatistics(
            count=tuple(self.count.astype(int).tolist()),
            mean=tuple(self.mean.tolist()),
            std=tuple(np.sqrt(self.squares / np.maximum(self.count, 1)).tolist()),
            min=tuple(np.where(seen, self.low, 0.0).tolist()),
            max=tuple(np.where(seen, self.high, 0.0).tolist()),
        )
