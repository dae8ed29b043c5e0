"""One Meta-World task as a simulator: reset to a seed, act, observe, save a moment and come back to it.

An episode is a pure function of (task, seed): each one gets an environment of its own, so nothing of an earlier one is
left in it. From the first step on, the same actions give bitwise the same states and frames after `restore` as they did
after `save`.

Facts about metaworld 3.1.1 that this module relies on:
    - `reset(seed=)` has no effect; object poses follow `env.seed()` once `seeded_rand_vec` is set.
    - Some tasks move bodies at the end of a reset; until the first step they are drawn where they were.
    - Experts need the goal in the observation; the observation space is cached with the goal hidden, and acting would
      clip the goal to zero unless that cache is dropped.
    - Experts ask for actions up to 25 in size, which the environment clips to [-1, 1].
    - `get_env_state` leaves out the body that drags the hand along and the start of the contact solver: from what it
      saves, the same actions lead elsewhere. `save` takes all that MuJoCo integrates from.
"""

import importlib
import os
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from wam_jax.data.recording.tasks import VERSION
from wam_jax.errors import InputError

FPS = 80
STATE_DIM = 4
_INSTALL = "the recorder's packages: python -m pip install 'wam-jax[sim]' (or uv run --extra sim ...)"
_RENDERER = "a headless renderer: install libosmesa6, or set MUJOCO_GL=egl where EGL is there"
# Experts whose class does not follow from the task's name.
_EXPERTS = {"peg-insert-side": "SawyerPegInsertionSideV3Policy"}


def import_simulator(name: str) -> ModuleType:
    """Imports a module of the extra `sim`, with headless rendering unless the user chose otherwise.

    Raises:
        InputError: the extra is not installed, or the renderer's library is missing.
    """
    os.environ.setdefault("MUJOCO_GL", "osmesa")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise InputError("extra sim", str(error), _INSTALL) from None
    except (ImportError, OSError, AttributeError) as error:
        raise InputError("MUJOCO_GL", os.environ["MUJOCO_GL"], f"{_RENDERER} ({error})") from None


def known_tasks() -> tuple[str, ...]:
    """Names of all tasks, without the version."""
    environments = import_simulator("metaworld.env_dict").ALL_V3_ENVIRONMENTS
    return tuple(sorted(name.removesuffix(f"-{VERSION}") for name in environments))


@dataclass(frozen=True)
class Snapshot:
    """A moment of one simulator.

    Attributes:
        physics: all that MuJoCo integrates from, float64.
        observation, previous: the latest observation, and the part of it that the next one repeats.
        steps: taken since the reset.
    """

    physics: np.ndarray
    observation: np.ndarray
    previous: np.ndarray
    steps: int


class Simulator:
    """One episode's environment, reset to its seed.

    Attributes:
        env: the Meta-World environment.
        observation: the latest full observation `[39]`: hand position and gripper, objects, goal.
    """

    def __init__(self, task: str, seed: int) -> None:
        environments = import_simulator("metaworld.env_dict").ALL_V3_ENVIRONMENTS
        env = environments[f"{task}-{VERSION}"]()
        env._set_task_called = True
        env._freeze_rand_vec = False
        env.seeded_rand_vec = True
        env._partially_observable = False
        vars(env).pop("sawyer_observation_space", None)
        env.seed(seed)
        self.env = env
        self.observation: np.ndarray = env.reset()[0]

    @property
    def state(self) -> np.ndarray:
        """Proprioception `[4]` float32: hand x, y, z in metres and the opening of the gripper in 0..1."""
        return self.observation[:STATE_DIM].astype(np.float32)

    def step(self, action: np.ndarray) -> bool:
        """Applies one action (dx, dy, dz, gripper in [-1, 1]) for one control step; returns if the task is done."""
        self.observation, _, _, _, info = self.env.step(action)
        return bool(info["success"] > 0.5)

    def save(self) -> Snapshot:
        """This moment, for `restore` of this same simulator."""
        mujoco, env = import_simulator("mujoco"), self.env
        what = mujoco.mjtState.mjSTATE_INTEGRATION
        physics = np.empty(mujoco.mj_stateSize(env.model, what))
        mujoco.mj_getState(env.model, env.data, physics, what)
        return Snapshot(physics, self.observation.copy(), env._prev_obs.copy(), env.curr_path_length)

    def restore(self, moment: Snapshot) -> None:
        """Goes back to a moment that `save` gave; what is drawn and observed is that of then."""
        mujoco, env = import_simulator("mujoco"), self.env
        what = mujoco.mjtState.mjSTATE_INTEGRATION
        mujoco.mj_setState(env.model, env.data, moment.physics, what)
        mujoco.mj_forward(env.model, env.data)  # Places bodies for the camera, and moves the solver's start,
        mujoco.mj_setState(env.model, env.data, moment.physics, what)  # which therefore is set once more.
        self.observation, env._prev_obs = moment.observation.copy(), moment.previous.copy()
        env.curr_path_length = moment.steps


def expert_of(task: str) -> Any:
    """The scripted expert: an object with `get_action(observation) -> [4]`."""
    default = "Sawyer" + "".join(part.capitalize() for part in task.split("-")) + "V3Policy"
    return getattr(import_simulator("metaworld.policies"), _EXPERTS.get(task, default))()
