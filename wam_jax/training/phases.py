"""Which part of the endless stream of draws a run is in.

The stream is one, a function of the data contract. A run begins at its first draw and follows it, also when it is
resumed. A new *data phase* (`--new-data-phase`) lets a resumed run go on with other data, or another way of drawing:
parameters, optimizer and step stay, and its draws come from a place of the stream that no other phase comes near,
number x 2**20 epochs in. So whatever the data have in common with those before, no draw, noise or order is repeated.
"""

import math
from dataclasses import dataclass

EPOCHS_APART = 2**20
"""Epochs between the beginnings of two phases: more than any run has."""


@dataclass(frozen=True)
class DataPhase:
    """One phase.

    Attributes:
        number: 0 for the first.
        from_step: updates done when it began.
        shift: update s of the run takes the draws of step s + shift of the stream.
    """

    number: int = 0
    from_step: int = 0
    shift: int = 0

    def draws(self, step: int, *, draws_per_step: int) -> range:
        """Where in the stream the draws of the update are after which `step` are done, if it takes them in order."""
        first = (step - 1 + self.shift) * draws_per_step
        return range(first, first + draws_per_step)


def next_phase(before: DataPhase, step: int, *, draws_per_epoch: int, draws_per_step: int) -> DataPhase:
    """The phase after another one, from `step` updates on, of data with these sizes."""
    number = before.number + 1
    # A phase begins with an epoch and with an update, so that its epochs are cut as those of the first phase are.
    whole = draws_per_step // math.gcd(draws_per_epoch, draws_per_step)
    epochs = -(-number * EPOCHS_APART // whole) * whole
    return DataPhase(number, step, epochs * draws_per_epoch // draws_per_step - step)
