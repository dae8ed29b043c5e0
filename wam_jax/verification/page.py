"""A verification as one HTML page that opens without a server: what failed and where first, then everything."""

import html
import math
from collections.abc import Sequence

from wam_jax.tracing.differences import Difference, first_diverged
from wam_jax.verification.gates import Check
from wam_jax.verification.report import (
    about_in_words,
    check_in_words,
    draw_in_words,
    gate_in_words,
    mode_in_words,
    reference_in_words,
)
from wam_jax.verification.run import ModeReport, Verification

_STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 74rem; color: #1b1b1b; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; font-size: 12.5px; }
td, th { padding: .1rem .4rem; white-space: nowrap; text-align: right; }
td:first-child, th:first-child { text-align: left; font-family: ui-monospace, monospace; }
.exact { color: #2b6cb0; } .within { color: #2f855a; } .diverged, .failed { color: #c53030; font-weight: 600; }
.first { background: #fed7d7; } .banner { padding: .8rem 1rem; border-radius: .4rem; background: #e6fffa; }
.banner.failed { background: #fff5f5; } .bar { display: inline-block; height: .7em; background: currentColor; }
"""


def as_page(found: Verification) -> str:
    """The whole page."""
    modes = "".join(_mode(found, mode) for mode in found.modes)
    state = "" if found.passed else " failed"
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>Verification</title><style>{_STYLE}</style>"
        f"<h1>{len(found.draws)} draws in {found.precision}: {'passed' if found.passed else 'failed'}</h1>"
        f"<div class='banner{state}'>{_banner(found)}</div>"
        f"<p>{html.escape(about_in_words(found.about))}</p>{_other(found)}"
        f"<p>Reference: {reference_in_words(found)}; {html.escape(gate_in_words(found))}</p>{modes}</html>"
    )


def _other(found: Verification) -> str:
    return f"<p>Against {html.escape(about_in_words(found.other))}</p>" if found.other else ""


def _banner(found: Verification) -> str:
    lines = []
    for mode in found.modes:
        first = first_diverged(mode.way)
        if mode.skipped is not None:
            lines.append(f"{mode.mode}: skipped, {html.escape(mode.skipped)}")
        elif first is not None:
            where = f"relative L2 {first.relative_l2:.1e}, worst at {first.stream} {first.worst_position}"
            name = f"<b class=diverged>{html.escape(first.name)}</b>"
            lines.append(f"{mode.mode}: first to diverge is <a href='#{mode.mode}'>{name}</a> ({where})")
        else:
            words = html.escape(mode_in_words(mode))
            lines.append(words if mode.passed else f"<b class=failed>{words}</b>")
    return "<br>".join(lines)


def _mode(found: Verification, mode: ModeReport) -> str:
    if mode.skipped is not None:
        return ""
    ways = (
        ("Tensors, in the order of execution", mode.mode, mode.way),
        ("Gradients, backwards", f"{mode.mode}-gradients", mode.gradient_way),
    )
    drawn = "".join(f"<h3>{title}</h3>{_way(anchor, way)}" for title, anchor, way in ways if way)
    if mode.traced:
        drawn = f"<p>Followed: {html.escape(draw_in_words(found, mode.traced))}.</p>{drawn}"
    return f"<h2>{html.escape(mode.mode)}</h2>{_checks(mode.checks)}{drawn}"


def _checks(checks: Sequence[Check]) -> str:
    return f"<table>{''.join(_check(check) for check in checks)}</table>"


def _check(check: Check) -> str:
    cells = "".join(f"<td style='text-align:left'>{html.escape(words)}" for words in check_in_words(check))
    return f"<tr class={'exact' if check.passed else 'failed'}><td>{check.quantity}{cells}"


def _way(anchor: str, way: Sequence[Difference]) -> str:
    first = first_diverged(way)
    names = ("relative L2", "", "mean, worst position", "max", "mean", "RMSE", "magnitude", "differing", "bits")
    head = f"<tr><th>tensor<th>{''.join(f'<th>{name}' for name in names)}"
    return f"<table>{head}{''.join(_tensor(item, anchor if item is first else None) for item in way)}</table>"


def _tensor(item: Difference, anchor: str | None) -> str:
    """A row; the first to diverge is where a mode's link leads."""
    kind = item.verdict.split()[0]
    mark = f"class='{kind}'" if anchor is None else f"class='{kind} first' id='{anchor}'"
    size = math.prod(item.shape)
    return (
        f"<tr {mark}><td>{html.escape(item.name)}<td>{item.verdict}<td>{item.relative_l2:.1e}"
        f"<td style='text-align:left'><span class=bar style='width:{_length(item.relative_l2)}rem'></span>"
        f"<td>{item.relative_l2_mean:.1e}, {item.relative_l2_max:.1e} at {item.worst_position}"
        f"<td>{item.max_abs:.1e}<td>{item.mean_abs:.1e}<td>{item.rmse:.1e}"
        f"<td>{item.magnitude:.1e}<td>{item.differing} of {size}<td>{item.differing_bits}"
    )


def _length(relative: float) -> float:
    """A decade is half a unit, from 1e-8 up."""
    return 0.0 if relative <= 0 else max(0.0, min(4.0, 4 + math.log10(min(relative, 1.0)) / 2))
