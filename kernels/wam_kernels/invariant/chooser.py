"""Who computes a call: the backend that was named, or the best one that accepts it. Logged once for each answer."""

import functools
import logging

from wam_kernels.backend import UnsupportedError
from wam_kernels.invariant.backend import Backend, Problem
from wam_kernels.invariant.xla import TiledXla
from wam_kernels.target import Target

_LOG = logging.getLogger("wam_kernels")

IMPLEMENTATIONS = ("xla", "pallas_triton")


def choose(implementation: str | Backend | None, problem: Problem, target: Target) -> Backend:
    """A settled backend.

    Raises:
        UnsupportedError: if the backend that was asked for refuses; the message holds its reason.
        ValueError: if the name is unknown.
    """
    backend = _automatic(problem, target) if implementation is None else _named(implementation)
    if reason := backend.refusal(problem, target):
        raise UnsupportedError(f"{backend.name} on {target.name}: {reason}")
    return backend.resolve(target)


def _automatic(problem: Problem, target: Target) -> Backend:
    triton = _named("pallas_triton")
    reason = triton.refusal(problem, target)
    backend = TiledXla() if reason else triton
    why = f"pallas_triton refuses: {reason}" if reason else "pallas_triton accepts the problem"
    _log_once(f"invariant {problem.operator} runs on {backend.name} for {target.name}: {why}")
    return backend


def _named(implementation: str | Backend) -> Backend:
    match implementation:
        case "xla":
            return TiledXla()
        case "pallas_triton":
            from wam_kernels.invariant.pallas_triton import PallasTriton

            return PallasTriton()
        case str():
            raise ValueError(f"implementation = {implementation!r}; known are {', '.join(IMPLEMENTATIONS)}, or None")
        case _:
            return implementation


@functools.cache
def _log_once(message: str) -> None:
    _LOG.info(message)
