"""How far two runs of the same draws are apart, and how far they may be.

What is compared falls into items: a draw's prediction, a loss of a draw, one parameter's gradient. An item's error is
the norm of the difference over the norm of the reference; where that may be zero, over at least 1e-6 of the norm of all
items of the draw. In half precision the largest difference is held against the largest value as well, but of updates.

How large an error may be is not guessed but measured, item by item, on draws alone: `FLOAT32_FACTOR` times what
rounding to float32 costs against float64 (at least `LEAST_ERROR`), and in half precision `HALF_FACTOR` times what that
costs on top. An item that got off lightly by chance is taken to cost what the median item does in float32, and what the
worst does in half precision, where chance has more room: of some hundred parameters a few are always off by more than
twice what they were alone. Largest differences, which hang on one value, are taken to cost what the worst of them does.
So are updates, since Adam makes a whole step of any gradient, also of one that is next to nothing, and how many such
elements change sides is luck. Where a gate would reach 1, the size of the reference itself, rounding alone decides, and
the item is named as not judged.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from wam_jax.policies.base import Params
from wam_jax.tracing.differences import differing_bits
from wam_jax.tracing.samples import Draw
from wam_jax.verification.outcomes import Outcome

FLOAT32_FACTOR = 8.0
HALF_FACTOR = 2.0
LEAST_ERROR = 2.0**-22
"""Four times the spacing of float32: below it an error is luck."""

_FLOOR = 1e-6


class Item(NamedTuple):
    """A part of a quantity: of one draw, or of the update (None)."""

    draw: Draw | None
    part: str


type Items = dict[Item, np.ndarray]
type Quantities = dict[str, Items]


class Error(NamedTuple):
    """Norm of a difference over that of the reference, largest difference over the largest value."""

    relative: float
    largest: float


type Errors = dict[Item, Error]
type Least = Literal["median", "worst"]


@dataclass(frozen=True)
class Check:
    """One quantity of one mode against its gates.

    Attributes:
        quantity: what.
        passed: whether every item that is judged is within its gate.
        worst: the item that comes closest to its gate, or is furthest beyond it; None if none is judged.
        error: of the worst item.
        gate: what those of its errors may be that are judged.
        ratio: of the error to the gate.
        items: how many there are.
        unjudged: those that rounding alone decides.
        differing: values whose bits are not the same, of all items.
    """

    quantity: str
    passed: bool
    worst: Item | None
    error: Error
    gate: dict[str, float]
    ratio: float
    items: int
    unjudged: list[Item]
    differing: int


def quantities(outcomes: Mapping[Draw, Outcome], mean_gradient: Params, update: Params) -> Quantities:
    """What is compared, by name.

    Args:
        outcomes: of the draws.
        mean_gradient: of an update of them.
        update: what it adds to the parameters, before the learning rate.
    """
    made: Quantities = {name: {} for name in ("video prediction", "action prediction", "first frame", "last frame")}
    made |= {"losses": {}, "gradient": {}}
    for draw, outcome in outcomes.items():
        made["video prediction"][Item(draw, "video")] = outcome.video
        made["action prediction"][Item(draw, "action")] = outcome.action
        for name, at in (("first frame", 0), ("last frame", -1)):
            made[name] |= {Item(draw, "video"): outcome.video[at], Item(draw, "action"): outcome.action[at]}
        made["losses"] |= {Item(draw, name): np.array(value) for name, value in outcome.losses.items()}
        made["gradient"] |= _leaves(draw, outcome.gradient)
    return made | {"mean gradient": _leaves(None, mean_gradient), "update": _leaves(None, update)}


def errors(found: Items, reference: Items) -> Errors:
    """The error of every item; infinite where a value is not finite, or where sizes differ."""
    draws = dict.fromkeys(item.draw for item in reference)
    wholes = {draw: _sizes(array for item, array in reference.items() if item.draw == draw) for draw in draws}
    return {item: _error(found[item], array, wholes[item.draw]) for item, array in reference.items()}


def _error(found: np.ndarray, reference: np.ndarray, whole: Error) -> Error:
    if found.shape != reference.shape:
        return Error(np.inf, np.inf)
    with np.errstate(invalid="ignore", over="ignore"):
        difference = _wide(found) - _wide(reference)
    pairs = zip(_sizes([difference]), _sizes([reference]), whole, strict=True)
    made = (part / max(own, _FLOOR * all_items, np.finfo(np.float64).tiny) for part, own, all_items in pairs)
    return Error(*(value if np.isfinite(value) else np.inf for value in made))


def _sizes(arrays: Iterable[np.ndarray]) -> Error:
    """Norm and largest value of all arrays together."""
    values = np.concatenate([_wide(array).ravel() for array in arrays])
    return Error(float(np.linalg.norm(values)), float(np.abs(values).max(initial=0)))


def gates(float32: Errors, half: Errors | None, *, least: Least = "median") -> Errors:
    """What the errors of items may be.

    Args:
        float32: of draws alone in float32, against float64.
        half: of draws alone in half precision, against the reference; None where float32 is verified.
        least: no item's norm is taken to cost less in float32 than the median one, or than the worst that can be
            judged; its largest difference, and both in half precision, never less than the worst.
    """
    pairs = [np.array(list(errors.values())).T for errors in (float32, half) if errors is not None]
    laws: tuple[Least, Least] = (least, "worst")
    columns = [tensor_gates(*(pair[kind] for pair in pairs), least=law) for kind, law in enumerate(laws)]
    return {item: Error(*pair) for item, pair in zip(float32, np.stack(columns, 1).tolist(), strict=True)}


def tensor_gates(float32: np.ndarray, half: np.ndarray | None = None, *, least: Least = "median") -> np.ndarray:
    """The same of one kind of error: float64[items]."""
    allowed = FLOAT32_FACTOR * np.maximum(_at_least(float32, least, FLOAT32_FACTOR), LEAST_ERROR)
    return allowed if half is None else allowed + HALF_FACTOR * _at_least(half, "worst", HALF_FACTOR)


def check(quantity: str, found: Items, reference: Items, allowed: Errors, *, largest: bool) -> Check:
    """One quantity of a mode against the reference; by norm, and if asked by the largest difference too."""
    error = errors(found, reference)
    kinds = {
        item: [kind for kind in ("relative", "largest")[: 1 + largest] if getattr(allowed[item], kind) < 1]
        for item in error
    }
    judged = [item for item in error if kinds[item]]

    def ratio(item: Item) -> float:
        return max(getattr(error[item], kind) / getattr(allowed[item], kind) for kind in kinds[item])

    worst = max(judged, key=ratio, default=None)
    return Check(
        quantity=quantity,
        passed=worst is None or ratio(worst) <= 1,
        worst=worst,
        error=error[worst] if worst else Error(0.0, 0.0),
        gate={kind: getattr(allowed[worst], kind) for kind in kinds[worst]} if worst else {},
        ratio=ratio(worst) if worst else 0.0,
        items=len(error),
        unjudged=[item for item in error if not kinds[item]],
        differing=count_differing(found, reference),
    )


def check_bits(found: Quantities, alone: Quantities) -> Check:
    """Everything that is compared of single draws, which must be the same bit for bit."""
    names = [name for name in alone if name not in ("mean gradient", "update")]
    counts = {name: count_differing(found[name], alone[name]) for name in names}
    differing = sum(counts.values())
    worst = Item(None, max(counts, key=lambda name: counts[name])) if differing else None
    items = sum(len(alone[name]) for name in names)
    gate = {"differing values": 0.0}
    return Check("bits", not differing, worst, Error(0.0, 0.0), gate, float(differing), items, [], differing)


def count_differing(found: Items, reference: Items) -> int:
    """Values whose bits are not the same."""
    return sum(
        int(np.count_nonzero(differing_bits(found[item], array)))
        if found[item].shape == array.shape
        else max(found[item].size, array.size)
        for item, array in reference.items()
    )


def not_finite(found: Quantities) -> list[tuple[str, Item]]:
    """The items that hold a value that is not finite."""
    return [
        (name, item)
        for name, items in found.items()
        for item, array in items.items()
        if not np.isfinite(_wide(array)).all()
    ]


def _at_least(errors: np.ndarray, least: Least, factor: float) -> np.ndarray:
    if least == "median":
        return np.maximum(errors, np.median(errors, axis=0))
    return np.maximum(errors, np.where(factor * errors < 1, errors, 0).max(axis=0))


def _wide(array: np.ndarray) -> np.ndarray:
    return np.asarray(array, np.float64)


def _leaves(draw: Draw | None, tree: Params) -> Items:
    def name(path: Any) -> str:
        return jax.tree_util.keystr(path, simple=True, separator="/")

    return {Item(draw, name(path)): np.asarray(leaf) for path, leaf in jax.tree.leaves_with_path(tree)}
