"""A new data phase begins where no other one comes, with an epoch and an update."""

import itertools

import pytest

from wam_jax.training.phases import EPOCHS_APART, DataPhase, next_phase


@pytest.mark.parametrize(("per_epoch", "per_step"), [(24, 8), (20, 8), (7, 8), (1000, 1)])
def test_phases_begin_with_an_epoch_far_from_each_other(per_epoch: int, per_step: int) -> None:
    phase, epochs = DataPhase(), [0]
    for step in (5, 5, 90):
        phase = next_phase(phase, step, draws_per_epoch=per_epoch, draws_per_step=per_step)
        epoch, rest = divmod((step + phase.shift) * per_step, per_epoch)
        assert (phase.from_step, rest) == (step, 0)
        epochs.append(epoch)
    assert phase.number == 3
    assert all(after - before >= EPOCHS_APART for before, after in itertools.pairwise(epochs))
    assert epochs[-1] < 2**32  # What a draw's key takes.


def test_updates_of_a_phase_follow_one_another() -> None:
    phase = next_phase(DataPhase(), 10, draws_per_epoch=24, draws_per_step=8)
    assert phase.shift + 10 == EPOCHS_APART * 3
