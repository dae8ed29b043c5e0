"""Which device a computation is being built for, as far as choosing a kernel goes."""

import re
from typing import NamedTuple

import jax

_CAPABILITY_OF_KIND = {"A100": (8, 0), "A10": (8, 6), "L40": (8, 9), "L4": (8, 9), "GH200": (9, 0), "GB200": (10, 0)}
_CAPABILITY_OF_KIND |= {"H100": (9, 0), "H200": (9, 0), "H800": (9, 0), "B200": (10, 0), "B300": (10, 3)}


class Target(NamedTuple):
    """A platform, and for NVIDIA GPUs the compute capability.

    Attributes:
        platform: `cpu`, `gpu` or `tpu`, as JAX names them.
        capability: `(9, 0)` for Hopper, `(8, 0)` for the A100; None where it is unknown or there is none.
    """

    platform: str
    capability: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        """`cpu`, `gpu`, or `sm_90` where the capability is known."""
        return self.platform if self.capability is None else "sm_{}{}".format(*self.capability)


def current_target() -> Target:
    """The abstract device of the mesh in use where it names one (ahead-of-time builds), else the default device."""
    device = jax.sharding.get_abstract_mesh().abstract_device
    if device is not None:
        return Target(device.platform or "gpu", capability_of_kind(device.device_kind))
    device = jax.devices()[0]
    if device.platform != "gpu":
        return Target(device.platform)
    major, _, minor = str(device.compute_capability).partition(".")
    return Target("gpu", (int(major), int(minor)))


def capability_of_kind(device_kind: str) -> tuple[int, int] | None:
    """The compute capability behind a device kind such as `NVIDIA H100 80GB HBM3`; None for one not in our table."""
    words = re.split(r"[^A-Z0-9]+", device_kind.upper())
    return next((_CAPABILITY_OF_KIND[word] for word in words if word in _CAPABILITY_OF_KIND), None)
