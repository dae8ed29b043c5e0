"""`report.png`: loss curves above, strips of true frames and denoised estimates below."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from wam_jax.training.metrics import Row
from wam_jax.training.report import LOSSES
from wam_jax.training.strips import Strip

PLOT_FILE = "report.png"
_WIDTH, _CURVES_HEIGHT, _STRIP_HEIGHT, _DPI = 12.0, 3.2, 1.9, 110
_MOST_FRAMES = 9


def draw_report(path: Path, rows: Sequence[Row], strips: Sequence[Strip], *, title: str, sigma: float) -> None:
    """Draws a run.

    Args:
        path: of the image.
        rows: of `metrics.jsonl`.
        strips: may be empty.
        title: the run's name.
        sigma: noise level of the estimates.
    """
    heights = [_CURVES_HEIGHT] + [_STRIP_HEIGHT] * len(strips)
    figure = Figure(figsize=(_WIDTH, sum(heights)), dpi=_DPI, layout="constrained")
    parts = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    parts[0].suptitle(title)
    for axes, name in zip(parts[0].subplots(1, len(LOSSES)), LOSSES, strict=True):
        _draw_curve(axes, rows, name)
    for part, strip in zip(parts[1:], strips, strict=True):
        _draw_strip(part, strip, sigma)
    figure.savefig(path)


def _draw_curve(axes: Axes, rows: Sequence[Row], name: str) -> None:
    trained, held_out = ([row for row in rows if row["phase"] == phase] for phase in ("train", "val"))
    axes.plot(*_points(trained, name), label="train", linewidth=0.7, alpha=0.6)
    axes.plot(*_points(held_out, name), label="held-out", marker="o", markersize=4)
    axes.plot(*_points(held_out, f"zero_{name}"), label="zero prediction", color="grey", linestyle="--", linewidth=0.8)
    axes.set(title=name, xlabel="updates", ylim=(0, None))
    axes.legend(fontsize="small")


def _points(rows: Sequence[Row], name: str) -> tuple[list[int], list[float]]:
    return [row["step"] for row in rows], [np.nan if row[name] is None else row[name] for row in rows]


def _draw_strip(part: SubFigure, strip: Strip, sigma: float) -> None:
    chosen = np.unique(np.linspace(0, len(strip.true) - 1, _MOST_FRAMES).round().astype(int))
    grid = part.subplots(2, len(chosen), squeeze=False)
    for line, (frames, label) in zip(
        grid, ((strip.true, "true"), (strip.estimate, f"estimate\nat sigma {sigma:g}")), strict=True
    ):
        for axes, frame in zip(line, chosen, strict=True):
            axes.imshow(frames[frame])
            axes.set(xticks=[], yticks=[])
        line[0].set_ylabel(label, fontsize="small")
