"""Range attention once more, dense, in NumPy float64, written from its definition alone."""

from typing import NamedTuple

import numpy as np


class Answer(NamedTuple):
    """`out`, `dq`: `[rows, queries, heads, head_dim]`; `dk`, `dv` likewise; `lse`: `[rows, heads, queries]`."""

    out: np.ndarray
    lse: np.ndarray
    dq: np.ndarray
    dk: np.ndarray
    dv: np.ndarray


def visible(ranges: np.ndarray, key_tokens: int, key_valid: np.ndarray | None) -> np.ndarray:
    """`bool[rows, queries, keys]` of `int32[rows, queries, R, 2]`."""
    seen = np.zeros((*ranges.shape[:2], key_tokens), bool)
    for row, query, i in np.ndindex(ranges.shape[:3]):
        first, last = ranges[row, query, i]
        seen[row, query, first:last] = True
    return seen if key_valid is None else seen & key_valid[:, None, :]


def answer(q: np.ndarray, k: np.ndarray, v: np.ndarray, seen: np.ndarray, do: np.ndarray, dlse: np.ndarray) -> Answer:
    """Output, natural lse (-inf: no key) and the gradients for the cotangents `do` and `dlse`."""
    scale = q.shape[-1] ** -0.5
    scores = np.where(seen[:, None], np.einsum("bqhd,bkhd->bhqk", q, k) * scale, -np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        peak = np.nan_to_num(scores.max(-1), neginf=0.0)[..., None]
        lse = np.log(np.exp(scores - peak).sum(-1)) + peak[..., 0]
        p = np.nan_to_num(np.exp(scores - lse[..., None]), nan=0.0)
    out = np.einsum("bhqk,bkhd->bqhd", p, v)
    dp = np.einsum("bqhd,bkhd->bhqk", do, v)
    delta = np.einsum("bqhd,bqhd->bhq", do, out) - dlse
    ds = p * (dp - delta[..., None]) * scale
    return Answer(
        out,
        lse,
        np.einsum("bhqk,bkhd->bqhd", ds, k),
        np.einsum("bhqk,bqhd->bkhd", ds, q),
        np.einsum("bhqk,bqhd->bkhd", p, do),
    )
