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
    draws: range | None = None,
) -> None:
    """Passes a finite update.

    Args:
        step: updates done, this one included.
        loss: the update's loss.
        nonfinite: bool[leaves], gradients that are not finite.
        names: of the leaves.
        draws: where in the stream the update's draws are; None where they are no stretch of it.
    Raises:
        NonFiniteError: naming the update, its draws and the first parameters.
    """
    if np.isfinite(loss) and not nonfinite.any():
        return
    found = [name for name, bad in zip(names, nonfinite, strict=True) if bad]
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    drawn = f"; draws {draws[0]} to {draws[-1]}" if draws else ""
    raise NonFiniteError(
        f"update {step} is not finite (loss {loss:g}{drawn}): gradients of {len(found)} of {len(names)} parameters: "
        f"{', '.join(found[:_SHOWN]) or 'none'}{more}. It was not applied. "
        "Lower training.optimizer.learning_rate, set max_grad_norm, or count and skip: training.nonfinite = 'skip'"
    )
