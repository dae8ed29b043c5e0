"""Side-car repositories as the reference implementation writes them."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.data.conversion.robots import Robot, write_lerobot
from tests.data.conversion.torch_files import save_torch

H, W, C, TEXT = 2, 3, 48, 5
CAMERAS = ("front", "wrist")


def latents_of(number: int, frames: int, *, camera: int = 0, clean: bool = False) -> np.ndarray:
    """`[T, H, W, C]` float16."""
    rng = np.random.default_rng([number, frames, camera, clean])
    return rng.normal(size=(frames, H, W, C)).astype(np.float16)


def text_of(sentence: str) -> np.ndarray:
    """`[3, TEXT]` float16."""
    return np.random.default_rng([*sentence.encode()]).normal(size=(3, TEXT)).astype(np.float16)


def payload(number: int, frames: int, *, camera: int = 0, **fields: Any) -> dict[str, Any]:
    """The dict of one file; a field of None is left out."""
    latent = latents_of(number, frames, camera=camera)
    content = {
        "latent": latent.reshape(-1, C),
        "latent_num_frames": frames,
        "latent_height": H,
        "latent_width": W,
        "frame_ids": list(range(1 + 4 * (frames - 1))),
    }
    return {name: value for name, value in (content | fields).items() if value is not None}


def write_repository(
    root: Path, robots: Sequence[Robot], payloads: Sequence[dict[str, Any]], *, camera: str = CAMERAS[0]
) -> Path:
    """A repository with one window `0 .. R` per robot; `payloads` are those of one camera."""
    if not root.exists():
        write_lerobot(root, robots, version="v2.1")
        shutil.rmtree(root / "videos")
    for number, (robot, content) in enumerate(zip(robots, payloads, strict=True)):
        name = f"episode_{number:06d}_0_{len(robot.frames)}.pth"
        save_torch(root / "latents" / "chunk-000" / camera / name, content)
    return root
