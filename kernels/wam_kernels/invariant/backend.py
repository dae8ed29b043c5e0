"""What a backend of the invariant operators supplies, and the problem it is asked about."""

from typing import NamedTuple, Protocol, Self

import jax
import jax.numpy as jnp

from wam_kernels.invariant.formulas import Norm
from wam_kernels.target import Target


class Problem(NamedTuple):
    """The static facts of one call.

    Attributes:
        operator: what the caller asked for.
        dtype: of the operands.
        inner: the dimensions that belong to a row: (contracted, out) of a product, (width,) of the others.
        elements: of the largest operand.
        batch: members of a batch of products, else 1.
    """

    operator: str
    dtype: jnp.dtype
    inner: tuple[int, ...]
    elements: int
    batch: int = 1


class Backend(Protocol):
    """One way to compute rows. Instances are frozen: they are static arguments under jit.

    A result row is a function of its operand row and of what all rows share, computed by one sequence of operations
    whatever the number of rows. Sums over rows go through them in order, fixed tile after fixed tile.
    """

    @property
    def name(self) -> str:
        """What `implementation=` calls it."""
        ...

    def refusal(self, problem: Problem, target: Target) -> str | None:
        """Why this problem cannot be computed on this target, or None if it can."""
        ...

    def resolve(self, target: Target) -> Self:
        """The same backend, settled for a target."""
        ...

    def product(self, a: jax.Array, b: jax.Array, bias: jax.Array | None, *, contract_last: bool = False) -> jax.Array:
        """`a[rows, K] @ b[K, N] + bias[N]`, or both with a leading batch and no bias; typed like a.

        With `contract_last` b is `[N, K]`.
        """
        ...

    def weight_gradient(self, a: jax.Array, upstream: jax.Array) -> jax.Array:
        """`a[rows, K]^T @ upstream[rows, N]`, or both with a leading batch: a sum over rows, in the wide dtype."""
        ...

    def row_sum(self, x: jax.Array) -> jax.Array:
        """The sum of `[rows, width]` over rows: `[width]`, in the wide dtype."""
        ...

    def normalise(self, x: jax.Array, scale: jax.Array | None, bias: jax.Array | None, norm: Norm) -> jax.Array:
        """The normalised rows of `[rows, width]`, times scale, plus bias."""
        ...

    def normalise_gradients(
        self, x: jax.Array, scale: jax.Array | None, norm: Norm, upstream: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Gradients of x and of the scale, the latter in the wide dtype."""
        ...

    def log_softmax(self, x: jax.Array) -> jax.Array:
        """Over the columns of `[rows, width]`."""
        ...

    def log_softmax_gradient(self, x: jax.Array, upstream: jax.Array) -> jax.Array:
        """The gradient of x."""
        ...

    def mean(self, x: jax.Array) -> jax.Array:
        """Over the columns of `[rows, width]`: `[rows]`."""
        ...
