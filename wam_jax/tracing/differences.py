"""How two runs of a sample differ, tensor by tensor, and where first."""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from wam_jax.tracing.samples import Part
from wam_jax.tracing.tape import Stream

type Verdict = Literal["exact", "within gate", "diverged"]


@dataclass(frozen=True)
class Difference:
    """Of one tensor of one sample: a run against a reference run.

    Attributes:
        name: of the tensor.
        stream: how positions are counted.
        shape: of the sample's part, [positions, ...].
        max_abs, mean_abs, rmse: of the differences.
        relative_l2: norm of the difference over the norm of the reference.
        relative_l2_mean, relative_l2_max: the same position by position.
        worst_position: where `relative_l2_max` is.
        magnitude: largest finite absolute value of the reference.
        differing: values whose bits are not the same.
        differing_bits: how many bits that are.
        verdict: "exact" where no bit differs, "within gate" where `relative_l2` is, else "diverged".
    """

    name: str
    stream: Stream
    shape: tuple[int, ...]
    max_abs: float
    mean_abs: float
    rmse: float
    relative_l2: float
    relative_l2_mean: float
    relative_l2_max: float
    worst_position: int
    magnitude: float
    differing: int
    differing_bits: int
    verdict: Verdict


def differences(found: Sequence[Part], reference: Sequence[Part], *, gates: Sequence[float]) -> list[Difference]:
    """Compares two runs of a sample; the gates bound the relative L2 difference of each tensor.

    Raises:
        ValueError: the runs are not of the same tensors.
    """
    if [part.name for part in found] != [part.name for part in reference]:
        raise ValueError("the runs are not of the same tensors")
    triples = zip(found, reference, gates, strict=True)
    return [difference(ours, theirs, gate=gate) for ours, theirs, gate in triples]


def difference(found: Part, reference: Part, *, gate: float) -> Difference:
    """Compares one tensor. A value that is not finite in one run only, or another size, is an infinite difference."""
    shape = found.value.shape
    if shape != reference.value.shape:
        found = dataclasses.replace(found, value=np.full_like(reference.value, np.inf))
    ours, theirs = _wide(found.value), _wide(reference.value)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.nan_to_num(np.abs(ours - theirs), nan=np.inf, posinf=np.inf)
    error[(ours == theirs) | (np.isnan(ours) & np.isnan(theirs))] = 0
    size = np.where(np.isfinite(theirs), theirs, 0)
    by_position = _norms(error) / np.maximum(_norms(size), np.finfo(np.float32).tiny)
    relative = float(np.linalg.norm(error) / max(np.linalg.norm(size), np.finfo(np.float32).tiny))
    bits = differing_bits(found.value, reference.value)
    verdict: Verdict = "exact" if not bits.any() else "within gate" if relative <= gate else "diverged"
    return Difference(
        name=found.name,
        stream=found.stream,
        shape=shape,
        max_abs=float(error.max(initial=0)),
        mean_abs=float(error.mean()) if error.size else 0.0,
        rmse=float(np.sqrt(np.mean(error**2))) if error.size else 0.0,
        relative_l2=relative,
        relative_l2_mean=float(by_position.mean()) if by_position.size else 0.0,
        relative_l2_max=float(by_position.max(initial=0)),
        worst_position=int(by_position.argmax()) if by_position.size else 0,
        magnitude=float(np.abs(size).max(initial=0)),
        differing=int(np.count_nonzero(bits)),
        differing_bits=int(bits.sum()),
        verdict=verdict,
    )


def first_diverged(found: Iterable[Difference]) -> Difference | None:
    """The first tensor in the order of execution that is beyond the gate."""
    return next((item for item in found if item.verdict == "diverged"), None)


def _norms(array: np.ndarray) -> np.ndarray:
    """The norm of each position."""
    return np.linalg.norm(array.reshape(len(array), math.prod(array.shape[1:])), axis=1)


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64)


def differing_bits(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """For each value how many of its bits differ; of two runs in different precisions, all bits of values that do."""
    if ours.dtype != theirs.dtype:
        return np.where(_wide(ours) == _wide(theirs), 0, 8 * ours.dtype.itemsize)
    word = np.dtype(f"u{ours.dtype.itemsize}")
    words = (np.ascontiguousarray(array).reshape(-1).view(word) for array in (ours, theirs))
    return np.bitwise_count(np.bitwise_xor(*words)).reshape(ours.shape)
