"""How far two runs of the same draws are apart, and how far they may be.

Errors of a quantity are norms of differences over norms of references, worst over the draws: of each stream's
predictions, of its first and last frame by themselves, of losses, of each parameter's gradient, of each parameter's
change in one update. Where the reference may be zero, the norm is at least 1e-6 of that of all gradients.

How far apart float32 runs may be is not guessed but measured: `FLOAT32_FACTOR` times the error that one draw alone has
in float32 against float64, at least `LEAST_ERROR`. Half precision may be off by twice what a draw alone is off, and
float32's gate on top, in the largest and in the root mean square error.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from wam_jax.policies.base import Params
from wam_jax.tracing.samples import Draw
from wam_jax.verification.outcomes import Outcome

FLOAT32_FACTOR = 8.0
HALF_FACTOR = 2.0
LEAST_ERROR = 2.0**-22
"""Four times the spacing of float32: below it an error is luck."""

_FLOOR = 1e-6

type Outcomes = Mapping[Draw, Outcome]
type Arrays = dict[str, np.ndarray]
type Quantities = dict[str, list[Arrays]]
"""What is compared, by name: one tree of arrays a draw, or one for all draws."""


@dataclass(frozen=True)
class Error:
    """How far a quantity is from its reference.

    Attributes:
        relative, largest, rms: relative norm, largest and root mean square difference, worst over draws.
        differing: values that are not the same, of all draws.
    """

    relative: float
    largest: float
    rms: float
    differing: int


@dataclass(frozen=True)
class Check:
    """One quantity of one mode against its gate.

    Attributes:
        quantity: what.
        error: of the mode.
        alone: of a draw alone in the same precision, which the gate was made of.
        gate: what the error may be: relative (float32), or largest and rms (half precision).
        passed: whether it is.
    """

    quantity: str
    error: Error
    alone: Error
    gate: dict[str, float]
    passed: bool


def quantities(outcomes: Outcomes, update: Callable[[Params], Params]) -> Quantities:
    """What is compared of draws.

    Args:
        outcomes: of the draws.
        update: the mean gradient to what one update adds to the parameters.
    """
    ordered = [outcomes[draw] for draw in sorted(outcomes)]
    mean = jax.tree.map(lambda *leaves: np.mean(leaves, axis=0), *(o.gradient for o in ordered))
    return {
        "video prediction": [{"": o.video} for o in ordered],
        "action prediction": [{"": o.action} for o in ordered],
        "first frame": [{"video": o.video[0], "action": o.action[0]} for o in ordered],
        "last frame": [{"video": o.video[-1], "action": o.action[-1]} for o in ordered],
        "losses": [{name: np.array(value) for name, value in o.losses.items()} for o in ordered],
        "gradient": [_leaves(o.gradient) for o in ordered],
        "update": [_leaves(update(mean))],
    }


def errors(found: Quantities, reference: Quantities) -> dict[str, Error]:
    """The worst error of every quantity."""
    return {name: _worst(found[name], reference[name]) for name in reference}


def check_float32(found: dict[str, Error], alone: dict[str, Error]) -> list[Check]:
    """A mode against draws alone; `alone` is the error of draws alone against float64."""
    checks = []
    for name, error in found.items():
        gate = float32_gate(alone[name].relative)
        checks.append(Check(name, error, alone[name], {"relative": gate}, error.relative <= gate))
    return checks


def float32_gate(alone: float) -> float:
    """What a relative error in float32 may be."""
    return FLOAT32_FACTOR * max(alone, LEAST_ERROR)


def check_half(
    found: dict[str, Error], alone: dict[str, Error], exact: dict[str, Error], magnitude: dict[str, Error]
) -> list[Check]:
    """A mode in half precision against float32.

    Args:
        found: the mode against draws alone in float32.
        alone: draws alone in half precision against the same.
        exact: draws alone in float32 against float64, for the tolerance of float32.
        magnitude: largest and root mean square value of the quantities, to make a difference of a relative error.
    """
    checks = []
    for name, error in found.items():
        tolerance, own, size = float32_gate(exact[name].relative), alone[name], magnitude[name]
        gate = {
            "largest": HALF_FACTOR * own.largest + tolerance * size.largest,
            "rms": HALF_FACTOR * own.rms + tolerance * size.rms,
        }
        checks.append(Check(name, error, own, gate, error.largest <= gate["largest"] and error.rms <= gate["rms"]))
    return checks


def magnitudes(reference: Quantities) -> dict[str, Error]:
    """The sizes of the quantities themselves, in the places of errors."""
    nothing = {name: [jax.tree.map(np.zeros_like, arrays) for arrays in rows] for name, rows in reference.items()}
    return errors(nothing, reference)


def _worst(found: Sequence[Arrays], reference: Sequence[Arrays]) -> Error:
    worst = Error(0.0, 0.0, 0.0, 0)
    for ours, theirs in zip(found, reference, strict=True):
        whole = np.sqrt(sum(float(np.sum(_wide(array) ** 2)) for array in theirs.values()))
        floor = max(_FLOOR * whole, np.finfo(np.float64).tiny)
        for name, array in theirs.items():
            difference = _wide(ours[name]) - _wide(array)
            relative = np.linalg.norm(difference) / max(np.linalg.norm(_wide(array)), floor)
            worst = Error(
                _larger(worst.relative, relative),
                _larger(worst.largest, np.abs(difference).max(initial=0)),
                _larger(worst.rms, np.sqrt(np.mean(difference**2)) if difference.size else 0),
                worst.differing + int(np.count_nonzero(difference)),
            )
    return worst


def _larger(a: float, b: Any) -> float:
    """The larger number; what is not a number is larger than any."""
    return float(np.inf if np.isnan(b) else max(a, float(b)))


def _wide(array: np.ndarray) -> np.ndarray:
    return np.asarray(array, np.float64)


def _leaves(tree: Params) -> Arrays:
    name = functools.partial(jax.tree_util.keystr, simple=True, separator="/")
    return {name(path): leaf for path, leaf in jax.tree.leaves_with_path(tree)}
