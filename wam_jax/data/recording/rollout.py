"""One demonstration: the expert acts until the task is done, and a few steps longer."""

import warnings
from dataclasses import dataclass

import numpy as np

from wam_jax.data.recording.camera import Camera
from wam_jax.data.recording.simulator import Simulator, expert_of

MAX_STEPS = 500
"""Meta-World refuses longer episodes."""


@dataclass(frozen=True)
class Recording:
    """What was seen and done in R raw frames.

    Attributes:
        task, seed: what was simulated.
        frames: `[R, size, size, 3]` uint8 RGB; frame 0 is before the first action.
        actions: `[R - 1, 4]` float32 in [-1, 1]; action t leads from frame t to frame t + 1.
        states: `[R, 4]` float32.
    """

    task: str
    seed: int
    frames: np.ndarray
    actions: np.ndarray
    states: np.ndarray


def record_episode(task: str, seed: int, size: int, tail: int) -> Recording | None:
    """Rolls out and renders one episode; the same arguments give bitwise the same recording.

    Args:
        size: pixels per side.
        tail: steps to go on after the task is first done.
    Returns:
        The recording, or None where the expert fails.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Every expert's step warns that the simulator will clip its action.
        return _roll_out(Simulator(task, seed), task, seed, size=size, tail=tail)


def _roll_out(simulator: Simulator, task: str, seed: int, *, size: int, tail: int) -> Recording | None:
    expert, camera = expert_of(task), Camera(simulator.env, size=size)
    frames, states, actions, first_success = [camera.frame()], [simulator.state], [], None
    while len(actions) < (MAX_STEPS if first_success is None else min(MAX_STEPS, first_success + tail)):
        action = np.clip(expert.get_action(simulator.observation), -1, 1).astype(np.float32)
        done = simulator.step(action)
        actions.append(action)
        states.append(simulator.state)
        frames.append(camera.frame())
        if done and first_success is None:
            first_success = len(actions)
    camera.close()
    if first_success is None:
        return None
    return Recording(task, seed, np.stack(frames), np.stack(actions), np.stack(states))
