"""A verification as text and as JSON."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from wam_jax.tracing.differences import Difference, first_diverged
from wam_jax.tracing.samples import Draw
from wam_jax.verification.gates import FLOAT32_FACTOR, HALF_FACTOR, LEAST_ERROR, Check
from wam_jax.verification.run import ModeReport, Verification

MARKS = {"exact": "=", "within gate": "~", "diverged": "X"}


def as_text(found: Verification) -> str:
    """The tables, and of a traced run the way of the first draw."""
    lines = [
        about_in_words(found),
        f"{len(found.draws)} draws in {found.precision}, of episodes {', '.join(dict.fromkeys(found.episodes))}",
        f"against {reference_in_words(found)}",
        gate_in_words(found),
    ]
    for mode in found.modes:
        lines += ["", *_mode_lines(found, mode)]
    lines += ["", f"verification {'passed' if found.passed else 'FAILED'}"]
    return "\n".join(lines)


def about_in_words(found: Verification) -> str:
    """Which recipe and data, and what it ran on, in a line."""
    about = found.about
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
        "gate": gate_in_words(found),
        "draws": [
            {"phase": draw[0], "epoch": draw[1], "position": draw[2], "episode": episode}
            for draw, episode in zip(found.draws, found.episodes, strict=True)
        ],
        "modes": [dataclasses.asdict(mode) | {"passed": mode.passed} for mode in found.modes],
    }


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
    lines = [f"{mode.mode}: {'passed' if mode.passed else 'FAILED'}"]
    lines += [_check_line(check) for check in mode.checks]
    if mode.traced:
        lines += [f"  furthest: {draw_in_words(found, mode.traced)}"]
    for title, way in (("first tensor to diverge", mode.way), ("first gradient to diverge", mode.gradient_way)):
        if way:
            first = first_diverged(way)
            lines += [f"  {title}: {first.name if first else 'none'}"]
    return lines + way_lines(mode.way)


def _check_line(check: Check) -> str:
    shown = ", ".join(f"{name} {getattr(check.error, name):.2e} (gate {gate:.2e})" for name, gate in check.gate.items())
    equal = "" if check.error.differing else ", bit for bit the same"
    return f"  {'ok    ' if check.passed else 'FAILED'} {check.quantity:18} {shown}{equal}"
