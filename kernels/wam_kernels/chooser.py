"""Who computes a call: the backend that was named, or the best one that accepts it. Logged once for each answer."""

import functools
import logging

from wam_kernels.backend import Backend, Problem, TileSize, UnsupportedError
from wam_kernels.reference import Reference
from wam_kernels.target import Target, current_target
from wam_kernels.xla import Xla

_LOG = logging.getLogger("wam_kernels")
_SMALL_PAIRS = 128 * 128
"""Up to here the dense form is chosen: one tile would hold it all."""

IMPLEMENTATIONS = ("reference", "xla", "pallas_triton", "pallas_mosaic")

TILED = "tiled"
"""In place of a name: the best backend that visits tiles, also where one tile would hold it all."""


def choose(
    implementation: str | Backend | None, problem: Problem, target: Target, given: tuple[TileSize, ...]
) -> Backend:
    """A resolved backend.

    Args:
        implementation: a name, a backend (for its settings), None for the best that accepts the problem, or `TILED`.
        problem: what is to be computed.
        target: where.
        given: the tile sizes that the caller has lists for, if any.

    Raises:
        UnsupportedError: if the backend that was asked for refuses; the message holds its reason.
        ValueError: if the name is unknown, or lists were given and a size that the backend reads is not among them.
    """
    backend = _resolved(implementation, problem, target, given)
    missing = set(backend.tile_sizes()) - set(given) if given else ()
    if missing:
        raise ValueError(
            f"tiles hold lists of {_sizes(given)}; {backend.name} on {target.name} also reads {_sizes(missing)} "
            "(query_tile x key_tile)"
        )
    return backend


def tile_sizes(
    problem: Problem,
    *,
    implementation: str | Backend | None = None,
    target: Target | None = None,
    preferred: tuple[TileSize, ...] = (),
) -> tuple[TileSize, ...]:
    """The tile sizes whose lists `range_attention` will read, so that a loader can build them.

    `target` is where it will run (None: here). A backend that can compute tiles of any size takes a `preferred` one. A
    sample's bits do not depend on its row when samples start at multiples of every size named.
    """
    return _resolved(implementation, problem, target or current_target(), preferred).tile_sizes()


def _resolved(
    implementation: str | Backend | None, problem: Problem, target: Target, given: tuple[TileSize, ...]
) -> Backend:
    if implementation is None or implementation == TILED:
        backend = _automatic(problem, target, tiled=implementation == TILED)
    else:
        backend = _named(implementation)
    if reason := backend.refusal(problem, target):
        raise UnsupportedError(f"{backend.name} on {target.name}: {reason}")
    return backend.resolve(problem, target, given)


def _automatic(problem: Problem, target: Target, *, tiled: bool) -> Backend:
    if target.platform != "gpu":
        if not tiled and problem.query_tokens * problem.key_tokens <= _SMALL_PAIRS:
            return _announced(Reference(), target, "the score matrix is no larger than a tile")
        return _announced(Xla(), target, "no kernel is written for this platform")
    refusals = []
    for name in reversed(IMPLEMENTATIONS[2:]):
        backend = _named(name)
        reason = backend.refusal(problem, target)
        if reason is None:
            return _announced(backend, target, "; ".join([*refusals, f"{name} accepts the problem"]))
        refusals.append(f"{name} refuses: {reason}")
    return _announced(Xla(), target, "; ".join(refusals))


def _named(implementation: str | Backend) -> Backend:
    match implementation:
        case "reference":
            return Reference()
        case "xla":
            return Xla()
        case "pallas_triton":
            from wam_kernels.pallas_triton import PallasTriton

            return PallasTriton()
        case "pallas_mosaic":
            from wam_kernels.pallas_mosaic import PallasMosaic

            return PallasMosaic()
        case str():
            known = ", ".join((*IMPLEMENTATIONS, TILED))
            raise ValueError(f"implementation = {implementation!r}; known are {known}, or None")
        case _:
            return implementation


def _announced(backend: Backend, target: Target, why: str) -> Backend:
    _log_once(f"range attention runs on {backend.name} for {target.name}: {why}")
    return backend


@functools.cache
def _log_once(message: str) -> None:
    _LOG.info(message)


def _sizes(sizes: set[TileSize] | tuple[TileSize, ...]) -> str:
    return ", ".join(f"{queries} x {keys}" for queries, keys in sorted(sizes))
