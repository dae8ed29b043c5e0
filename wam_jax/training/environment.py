"""What a run ran on: versions, the state of the source tree, devices."""

import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

_PACKAGES = ("wam-jax", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "grain", "ml-collections", "numpy")


def versions() -> dict[str, str]:
    """Of Python and the packages that results depend on."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def git_state() -> dict[str, Any] | None:
    """Commit of the source tree and whether it was changed since; None outside of one.

    A package that is installed somewhere inside of another project's tree is none of that project's commits.
    """
    commit = _git("rev-parse", "HEAD")
    if commit is None or _git("ls-files", "--error-unmatch", Path(__file__).name) is None:
        return None
    return {"commit": commit, "dirty": bool(_git("status", "--porcelain"))}


def devices() -> dict[str, Any]:
    """Kind and number of the devices, over all processes."""
    return {
        "platform": jax.default_backend(),
        "kind": jax.devices()[0].device_kind,
        "count": jax.device_count(),
        "processes": jax.process_count(),
    }


def peak_memory_bytes() -> int | None:
    """Most memory that a device of this process has held, or None where the backend does not say."""
    found = [device.memory_stats() for device in jax.local_devices()]
    peaks = [stats["peak_bytes_in_use"] for stats in found if stats and "peak_bytes_in_use" in stats]
    return max(peaks) if peaks else None


def _git(*arguments: str) -> str | None:
    source = Path(__file__).parent
    try:
        done = subprocess.run(["git", *arguments], cwd=source, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
