"""Which recorded rows belong to which sampled frame."""

import numpy as np
import pytest

from wam_jax.data.conversion.timeline import Timeline
from wam_jax.errors import InputError

ROWS = np.arange(7)[:, None]


@pytest.mark.parametrize(
    ("timeline", "actions", "states"),
    [
        (Timeline(), [0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5, 6]),
        (Timeline(stride=2), [0, 1, 2, 3, 4, 5], [0, 2, 4, 6]),
        (Timeline(stride=2, rows="sampled"), [0, 2, 4], [0, 2, 4, 6]),
        (Timeline(stride=4), [0, 1, 2, 3], [0, 4]),
        (Timeline(shift=1), [1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4, 5, 6]),
        (Timeline(shift=2), [2, 3, 4, 5, 6], [0, 1, 2, 3, 4, 5, 6]),
    ],
)
def test_the_drawing(timeline, actions, states):
    assert timeline.actions(ROWS).ravel().tolist() == actions
    assert timeline.states(ROWS).ravel().tolist() == states
    assert timeline.frames(7) == len(states)


def test_slots_per_latent_frame():
    assert Timeline(stride=3).units.actions_per_frame == 12
    assert Timeline(stride=3, rows="sampled").units.actions_per_frame == 4


@pytest.mark.parametrize("arguments", [{"stride": 0}, {"shift": -1}])
def test_odd_steps_are_refused(arguments):
    with pytest.raises(InputError, match="--"):
        Timeline(**arguments)
