"""Branches of one demonstration: from one of its moments on, the same scene under other actions.

The simulator comes to the moment by the demonstration's own actions, is saved there and restored for every branch. The
moment is a raw frame at which a latent frame is anchored, so a branch begins with what its parent shows there. From
then on it follows the expert, who sees where the branch went, plus an offset that is drawn anew every `HOLD` steps:
offsets that change with every step would average out in the arm's inertia. Without an offset a branch is its parent.
"""

import warnings
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from wam_jax.data.recording.camera import Camera
from wam_jax.data.recording.rollout import Recording
from wam_jax.data.recording.simulator import Simulator, Snapshot, expert_of

HOLD = 8
"""Steps that share an offset."""
_ACTION_DIM = 4


@dataclass(frozen=True)
class Fork:
    """Where a branch leaves its parent, and how.

    Attributes:
        number: tells apart branches of one parent, and their offsets.
        start: t0, a raw frame of the parent.
        steps: actions of the branch.
        strength: standard deviation of the offsets, in units of the actions, which are in [-1, 1].
    """

    number: int
    start: int
    steps: int
    strength: float

    def offsets(self, task: str, seed: int) -> np.ndarray:
        """What is added to the expert's actions, `[steps, 4]`; a pure function of all that is known here."""
        rng = np.random.default_rng([*task.encode(), seed, self.number])
        drawn = rng.normal(scale=self.strength, size=(-(-self.steps // HOLD), _ACTION_DIM))
        return drawn.repeat(HOLD, axis=0)[: self.steps]


def record_branches(parent: Recording, forks: Sequence[Fork]) -> list[Recording]:
    """Simulates and renders branches; the same arguments give bitwise the same recordings.

    Args:
        parent: a whole demonstration.
        forks: where to leave it.
    Returns:
        One recording a fork, whose frame 0 is frame `start` of the parent.
    """
    simulator = Simulator(parent.task, parent.seed)
    with closing(Camera(simulator.env, size=parent.frames.shape[1])) as camera, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Every expert's step warns that the simulator will clip its action.
        moments = _moments(simulator, parent.actions, {fork.start for fork in forks})
        return [_grow(simulator, camera, parent, moments[fork.start], fork) for fork in forks]


def _moments(simulator: Simulator, actions: np.ndarray, starts: set[int]) -> dict[int, Snapshot]:
    """The moments before the actions at `starts`."""
    moments = {0: simulator.save()}
    for step, action in enumerate(actions[: max(starts)], start=1):
        simulator.step(action)
        if step in starts:
            moments[step] = simulator.save()
    return moments


def _grow(simulator: Simulator, camera: Camera, parent: Recording, moment: Snapshot, fork: Fork) -> Recording:
    simulator.restore(moment)
    expert, actions = expert_of(parent.task), []
    frames, states = [camera.frame()], [simulator.state]
    for offset in fork.offsets(parent.task, parent.seed):
        wanted = np.clip(expert.get_action(simulator.observation), -1, 1)
        actions.append(np.clip(wanted + offset, -1, 1).astype(np.float32))
        simulator.step(actions[-1])
        frames.append(camera.frame())
        states.append(simulator.state)
    return Recording(parent.task, parent.seed, np.stack(frames), np.stack(actions), np.stack(states))
