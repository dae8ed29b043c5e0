"""What happens when a loss or a gradient is not finite: stop with the names of the parameters, or skip and count.

Either way the update left parameters and optimizer untouched (`wam_jax.training.programs`).
"""

from collections.abc import Sequence

import numpy as np

_SHOWN = 20


class NonFiniteError(RuntimeError):
    """Training cannot go on: an update's loss or a gradient is NaN or infinite."""


def check_finite(
    step: int,
    loss: float,
    nonfinite: np.ndarray,
    names: Sequence[str],
    *,
    samples_per_update: int,
    first_draw: int = 0,
) -> None:
    """Passes a finite update.

    Args:
        step: updates done, this one included.
        loss: the update's loss.
        nonfinite: bool[leaves], gradients that are not finite.
        names: of the leaves.
        samples_per_update: for the positions of the update's draws.
        first_draw: of the first update.
    Raises:
        NonFiniteError: naming the draws and the first parameters.
    """
    if np.isfinite(loss) and not nonfinite.any():
        return
    found = [name for name, bad in zip(names, nonfinite, strict=True) if bad]
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    first = first_draw + (step - 1) * samples_per_update
    raise NonFiniteError(
        f"update {step} is not finite (loss {loss:g}; draws {first} to {first + samples_per_update - 1}): gradients of "
        f"{len(found)} of {len(names)} parameters: {', '.join(found[:_SHOWN]) or 'none'}{more}. It was not applied. "
        "Lower training.optimizer.learning_rate, set max_grad_norm, or count and skip: training.nonfinite = 'skip'"
    )
