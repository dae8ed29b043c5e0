"""The visibility of one sample as text, one letter a pair of frames, for documentation and for eyes.

Rows are queries, columns keys; `x` is read, `.` is not. Tokens of a frame's copy are alike, so one stands for all.
"""

import numpy as np

from wam_jax.sequence.geometry import SequenceGeometry
from wam_jax.sequence.programs import Kind
from wam_jax.sequence.visibility import frame_spans, visible_spans

_PREFIX = "p"


def draw_visibility(geometry: SequenceGeometry) -> str:
    """The law of a geometry, whatever its actions: a header and one line a frame and copy; the prefix frame is `p`."""
    visible = visible_spans(geometry, frame_spans(geometry))
    kinds = np.repeat(list(Kind), [geometry.frames_of(kind) for kind in Kind])
    names = [f"{kind.name}{frame}" for kind in Kind for frame in _frame_names(geometry, kind)]
    width = max(map(len, names))
    columns = [kinds == kind for kind in Kind]
    head = "  ".join(f"{kind.name:<{column.sum()}}" for kind, column in zip(Kind, columns, strict=True))
    lines = [f"{'':<{width}}  {head}".rstrip()]
    for name, row in zip(names, visible, strict=True):
        lines.append(f"{name:<{width}}  " + "  ".join(_marks(row[column]) for column in columns))
    return "\n".join(lines)


def _frame_names(geometry: SequenceGeometry, kind: Kind) -> list[str]:
    names = [str(frame) for frame in range(geometry.num_frames)]
    return [_PREFIX] * geometry.prefix_frames + names if kind.is_video else names


def _marks(visible: np.ndarray) -> str:
    return "".join("x" if seen else "." for seen in visible)
