"""Rendering on the CPU: one camera, square, supersampled.

The view is Meta-World's `corner2`, moved close to the table. Shadows, reflections and multisampling take most of a
software rasteriser's time and are off; rendering at twice the size and averaging smooths edges for less.
"""

from typing import Any

import numpy as np

from wam_jax.data.recording.simulator import import_simulator

NAME = "corner2"
POSITION = (0.75, 0.075, 0.7)
SUPERSAMPLING = 2


class Camera:
    """Renders one environment. Owns an OpenGL context: one at a time per process, closed after use."""

    def __init__(self, env: Any, *, size: int) -> None:
        """
        Args:
            env: a MuJoCo environment with `model` and `data`; the model's camera is moved.
            size: pixels per side of a frame.
        """
        mujoco = import_simulator("mujoco")
        self._env, self._size = env, size
        side = size * SUPERSAMPLING
        env.model.vis.quality.offsamples = 0
        env.model.vis.global_.offwidth = env.model.vis.global_.offheight = side
        self._camera = mujoco.mj_name2id(env.model, mujoco.mjtObj.mjOBJ_CAMERA, NAME)
        env.model.cam_pos[self._camera] = POSITION
        mujoco.mj_camlight(env.model, env.data)  # Else the move shows only after the next step.
        self._renderer = mujoco.Renderer(env.model, side, side)
        for flag in (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION):
            self._renderer.scene.flags[flag] = 0

    def frame(self) -> np.ndarray:
        """The current view, `[size, size, 3]` uint8 RGB."""
        self._renderer.update_scene(self._env.data, camera=self._camera)
        upright = self._renderer.render()[::-1, ::-1]  # This camera is mounted upside down.
        return downsample(upright, SUPERSAMPLING)

    def close(self) -> None:
        """Frees the context."""
        self._renderer.close()


def downsample(image: np.ndarray, factor: int) -> np.ndarray:
    """Means of `factor` x `factor` pixels, rounded half up: `[factor h, factor w, 3]` to `[h, w, 3]` uint8."""
    height, width, colours = (image.shape[0] // factor, image.shape[1] // factor, image.shape[2])
    cells = image.reshape(height, factor, width, factor, colours).astype(np.uint32).sum(axis=(1, 3))
    return ((cells + factor**2 // 2) // factor**2).astype(np.uint8)
