"""Real shapes by name, for the tuner, the benchmark and the tests of speed."""

from typing import NamedTuple

import numpy as np

from wam_kernels.ranges import KeyRanges

SEGMENT_LENGTHS = (868, 914, 1206, 1441, 341, 473, 1288, 1439)
"""Eight samples of unequal length: 7,970 tokens."""


class Workload(NamedTuple):
    """One row of self-attention.

    Attributes:
        ranges: who sees whom, one row.
        tokens: queries, and keys.
        heads: heads.
        head_dim: size of a head.
        dtype: dtype of q, k and v.
    """

    ranges: KeyRanges
    tokens: int
    heads: int
    head_dim: int
    dtype: str

    def visible_pairs(self) -> int:
        """How many (query, key) pairs are visible."""
        length = np.maximum(self.ranges.run_ranges[0, :, :, 1] - self.ranges.run_ranges[0, :, :, 0], 0).sum(1)
        run = self.ranges.run_of_query[0]
        return int(length[run[run >= 0]].astype(np.int64).sum())

    def forward_flops(self) -> int:
        """Operations of both products over the visible pairs. A backward pass has 2.5 times as many."""
        return 4 * self.visible_pairs() * self.heads * self.head_dim


def segments(lengths: tuple[int, ...], tokens: int) -> KeyRanges:
    """Samples back to back, each token seeing its own sample; the tail of the row sees nothing."""
    ends = np.cumsum(lengths)
    run = np.full(tokens, -1, np.int32)
    run[: ends[-1]] = np.repeat(np.arange(len(lengths)), lengths)
    return KeyRanges(np.stack([ends - lengths, ends], -1).astype(np.int32)[None, :, None], run[None])


def noisy_and_clean(samples: int, frames: int, tokens_per_frame: int, frames_per_chunk: int) -> KeyRanges:
    """Samples of a noisy and a clean copy each, as a world model is trained with teacher forcing.

    A noisy token sees its own chunk and the clean copies of earlier chunks, a clean token the clean copies up to its
    own chunk.
    """
    table, base = [], 0
    size = frames * tokens_per_frame
    first = np.arange(frames) // frames_per_chunk * frames_per_chunk * tokens_per_frame
    last = np.minimum(first + frames_per_chunk * tokens_per_frame, size)
    for _ in range(samples):
        clean = base + size
        table += [[(base + a, base + b), (clean, clean + a)] for a, b in zip(first, last, strict=True)]
        table += [[(clean, clean + b), (0, 0)] for b in last]
        base += 2 * size
    run = np.repeat(np.arange(len(table), dtype=np.int32), tokens_per_frame)
    return KeyRanges(np.array(table, np.int32)[None], run[None])


def workload(name: str) -> Workload:
    """A workload by name; see `NAMES`."""
    match name:
        case "segments_8k_float32":
            return Workload(segments(SEGMENT_LENGTHS, 8192), 8192, 8, 64, "float32")
        case "dense_8k":
            return Workload(segments((8192,), 8192), 8192, 24, 128, "bfloat16")
        case "segments_8k":
            return Workload(segments(SEGMENT_LENGTHS, 8192), 8192, 24, 128, "bfloat16")
        case "noisy_and_clean_32k":
            return Workload(noisy_and_clean(4, 16, 256, 4), 32_768, 24, 128, "bfloat16")
        case "noisy_and_clean_200k":
            return Workload(noisy_and_clean(6, 65, 256, 4), 199_680, 24, 128, "bfloat16")
    raise ValueError(f"workload {name!r} is unknown; known are {', '.join(NAMES)}")


NAMES = ("segments_8k_float32", "dense_8k", "segments_8k", "noisy_and_clean_32k", "noisy_and_clean_200k")
