"""A verification as text and as JSON."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from wam_jax.tracing.differences import Difference, first_diverged
from wam_jax.tracing.samples import Draw
from wam_jax.verification.gates import FLOAT32_FACTOR, HALF_FACTOR, LEAST_ERROR, Check
from wam_jax.verification.run import ModeReport, Verification

MARKS = {"exact": "=", "within gate": "~", "diverged": "X"}


def as_text(found: Verification) -> str:
    """The tables, and of a traced run the way of one draw."""
    lines = [about_in_words(found.about)]
    if found.other:
        lines += [f"against {about_in_words(found.other)}"]
    lines += [
        f"{len(found.draws)} draws in {found.precision}, of episodes {', '.join(dict.fromkeys(found.episodes))}",
        f"reference: {reference_in_words(found)}",
        gate_in_words(found),
    ]
    for mode in found.modes:
        lines += ["", *_mode_lines(found, mode)]
    lines += ["", f"verification {'passed' if found.passed else 'FAILED'}"]
    return "\n".join(lines)


def about_in_words(about: Mapping[str, Any]) -> str:
    """Which recipe and data, and what it ran on, in a line (`Subject.about`)."""
    data, versions, git, devices = (about[name] for name in ("data", "versions", "git", "devices"))
    stores = ", ".join([data["store"], *data["more_stores"]])
    source = f"commit {git['commit'][:12]}{' and changes' if git['dirty'] else ''}" if git else versions["wam-jax"]
    return (
        f"{about['recipe']}: {about['parameters']['total']:,} parameters, {data['episodes']:,} episodes of {stores} "
        f"(fingerprint {data['fingerprint'][:12]}); wam-jax {source}, jax {versions['jax']} on {devices['kind']}"
    )


def draw_in_words(found: Verification, draw: Draw) -> str:
    """A draw by its place in the stream and its episode."""
    return f"draw {draw[2]} of epoch {draw[1]}, episode {found.episodes[found.draws.index(draw)]}"


def mode_in_words(mode: ModeReport) -> str:
    """A mode, and whether it passed."""
    company = f"up to {mode.company} others in a draw's row" if mode.company else "a row for each draw"
    return f"{mode.mode}: {'passed' if mode.passed else 'FAILED'} ({company})"


def check_in_words(check: Check) -> tuple[str, str, str]:
    """Errors beside gates; where they are worst; what else is to be said of a check."""
    if check.quantity == "bits":
        return f"{check.differing} values differ from the draws alone on the same tiles", "", ""
    shown = ", ".join(f"{kind} {getattr(check.error, kind):.2e} (gate {gate:.2e})" for kind, gate in check.gate.items())
    where = ""
    if check.worst:
        draw, part = check.worst
        where = f"at {'' if draw is None else f'draw {draw[2]}, '}{part}"
    notes = [] if check.differing else ["bit for bit the same"]
    if check.unjudged:
        notes += [f"{len(check.unjudged)} of {check.items} not judged: rounding alone decides them"]
    return shown, where, "; ".join(notes)


def reference_in_words(found: Verification) -> str:
    """What the modes are compared with."""
    match found.against:
        case "independent" if found.precision == "float32":
            return "the same draws alone, with dense attention"
        case "independent":
            return "the same draws alone, with dense attention, in float32"
        case "fp64":
            return "the same draws alone, with dense attention, in float64"
        case "other-run":
            return "another run in the same mode"


def gate_in_words(found: Verification) -> str:
    """What a gate is made of."""
    if found.precision == "float32":
        return (
            f"gate: {FLOAT32_FACTOR:g} x the error of the draws alone in float32 against float64, "
            f"at least {FLOAT32_FACTOR * LEAST_ERROR:.1e}"
        )
    truth = "float64" if found.against == "fp64" else "float32"
    alone = f"the error of the draws alone in {found.precision} against {truth}"
    return f"gate: {HALF_FACTOR:g} x {alone}, plus the gate of float32"


def as_json(found: Verification) -> dict[str, Any]:
    """Everything, for machines."""
    return {
        "passed": found.passed,
        "about": found.about,
        "precision": found.precision,
        "against": found.against,
        "other": found.other,
        "gate": gate_in_words(found),
        "draws": [
            {"phase": draw[0], "epoch": draw[1], "position": draw[2], "episode": episode}
            for draw, episode in zip(found.draws, found.episodes, strict=True)
        ],
        "modes": [_finite(dataclasses.asdict(mode) | {"passed": mode.passed}) for mode in found.modes],
    }


def _finite(value: Any) -> Any:
    """JSON without numbers that JSON does not have: null for what is not finite."""
    match value:
        case dict():
            return {key: _finite(item) for key, item in value.items()}
        case list():
            return [_finite(item) for item in value]
        case tuple() if hasattr(value, "_asdict"):
            return _finite(value._asdict())
        case tuple():
            return [_finite(item) for item in value]
        case float() if not math.isfinite(value):
            return None
    return value


def way_lines(way: Sequence[Difference]) -> list[str]:
    """A drawing of the way: one line a tensor, marked by its verdict."""
    width = max((len(item.name) for item in way), default=0)
    return [
        f"  {MARKS[item.verdict]} {item.name:{width}}  {item.verdict:11}  relative L2 {item.relative_l2:.2e}  "
        f"max {item.max_abs:.2e}  differing {item.differing}"
        for item in way
    ]


def _mode_lines(found: Verification, mode: ModeReport) -> list[str]:
    if mode.skipped is not None:
        return [f"{mode.mode}: skipped; {mode.skipped}"]
    lines = [mode_in_words(mode), *(_check_line(check) for check in mode.checks)]
    if mode.traced:
        lines += [f"  followed: {draw_in_words(found, mode.traced)}"]
    for title, way in (("first tensor to diverge", mode.way), ("first gradient to diverge", mode.gradient_way)):
        if way:
            first = first_diverged(way)
            lines += [f"  {title}: {first.name if first else 'none'}"]
    if found.against == "other-run" and not mode.passed and not mode.traced:
        lines += ["  where they part is not known: the other run was recorded without --trace"]
    return lines + way_lines(mode.way)


def _check_line(check: Check) -> str:
    shown, where, notes = check_in_words(check)
    line = f"  {'ok    ' if check.passed else 'FAILED'} {check.quantity:18} {shown}"
    return "; ".join(part for part in (f"{line} {where}".rstrip(), notes) if part)
