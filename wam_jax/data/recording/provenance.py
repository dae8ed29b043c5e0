"""What a recorded store says of its making."""

import platform
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from wam_jax.data.recording import camera
from wam_jax.data.recording.branches import Branch
from wam_jax.data.recording.fork import HOLD
from wam_jax.data.recording.schedule import Request
from wam_jax.data.recording.spool import Spooled

NATURE = "simulated expert data (scripted policies in a physics simulator), not real-robot data"
_PACKAGES = ("metaworld", "mujoco", "gymnasium", "numpy", "wam-jax")


def provenance_of(request: Request, recordings: Sequence[Spooled]) -> dict[str, Any]:
    """How the recordings were made; the same request on the same versions gives the same recordings."""
    return {
        "nature": NATURE,
        "made_by": "python -m wam_jax.data.record",
        "simulator": "Meta-World v3 tasks and their scripted experts, in MuJoCo",
        "licence": "Meta-World: MIT; MuJoCo: Apache-2.0; the recordings: Apache-2.0",
        "versions": {package: version(package) for package in _PACKAGES} | {"python": platform.python_version()},
        "seeds": {task: [item.seed for item in recordings if item.task == task] for task in request.tasks},
        "kept": f"successful episodes, from reset to {request.tail} steps after the first success",
        "validation": "the last seed of each task",
        "camera": {
            "name": camera.NAME,
            "position": list(camera.POSITION),
            "pixels": request.size,
            "supersampling": camera.SUPERSAMPLING,
            "rotated_degrees": 180,
        },
        "actions": "dx, dy, dz, gripper in [-1, 1], clipped as the simulator clips them; one per raw frame",
        "state": "hand x, y, z in metres, opening of the gripper in 0..1",
    }


def branch_provenance(branches: Sequence[Branch]) -> dict[str, Any]:
    """How branches were made: the parent's id and t0, a raw frame of it, by the branch's id."""
    return {
        "nature": "from a restored state of a demonstration on, the expert's actions plus random offsets",
        "offsets": f"normal, drawn anew every {HOLD} steps; expert and sum clipped to [-1, 1]",
        "strengths": sorted({branch.fork.strength for branch in branches}),
        "split": "that of the parent",
        "episodes": {branch.name: [branch.parent.name, branch.fork.start] for branch in branches},
    }
