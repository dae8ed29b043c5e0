"""The end of a run in numbers: a table to read, `report.json` to compute with.

Everything comes from the rows of `metrics.jsonl`, earlier starts of the run included.
"""

import json
import statistics
from collections.abc import Sequence
from pathlib import Path

from wam_jax.data.batching.counts import STREAMS
from wam_jax.training.locate import Json
from wam_jax.training.metrics import Row
from wam_jax.training.record import replace_text

REPORT_FILE = "report.json"
_COMPUTED = ("video", "action")
LOSSES = ("loss", "video_loss", "action_loss")
_RATES = ("step_seconds", "data_wait_seconds", "real_tokens_per_second")
_SIZES = ("video_frames", "action_frames", "text_keys", "proprio_keys")


def summarise(rows: Sequence[Row], *, record: Json) -> Json:
    """The content of `report.json`.

    Args:
        rows: of the run, with at least one validation.
        record: the run's.
    Returns:
        `validation`: for each loss the first and last held-out value, that of the zero prediction at the end, and the
        ratio of the last two. `train`: medians over updates of times and rates, the last loss, updates done.
        `utilisation`: real tokens over allocated slots in all updates that were logged, of self-attention (`all`) and
        of each stream. `shapes`: what the last start compiled, and the utilisation that was expected of it.
    """
    held_out = [row for row in rows if row["phase"] == "val"]
    trained = [row for row in rows if row["phase"] == "train"]
    first, last = held_out[0], held_out[-1]
    return {
        **{name: record[name] for name in ("run_id", "name", "parameters")},
        "validation": {
            "first_step": first["step"],
            "last_step": last["step"],
            "num_samples": last["num_samples"],
            "losses": {name: _progress(first, last, name) for name in LOSSES},
        },
        "train": {
            "updates": len(trained),
            "last_loss": trained[-1]["loss"] if trained else None,
            **{f"median_{name}": statistics.median(row[name] for row in trained) for name in _RATES if trained},
        },
        "utilisation": utilisation(trained),
        "shapes": record["launches"][-1]["shapes"],
    }


def utilisation(rows: Sequence[Row]) -> dict[str, float]:
    """Real tokens over allocated slots in some updates: of self-attention (`all`) and of each stream with slots."""
    slots = {name: sum(row.get(f"{name}_slots", 0) for row in rows) for name in STREAMS}
    tokens = {
        name: sum(row[f"{name}_utilisation"] * row[f"{name}_slots"] for row in rows if f"{name}_slots" in row)
        for name in STREAMS
    }
    pairs = {"all": (sum(tokens[name] for name in _COMPUTED), sum(slots[name] for name in _COMPUTED))}
    pairs |= {name: (tokens[name], slots[name]) for name in STREAMS}
    return {name: real / allocated for name, (real, allocated) in pairs.items() if allocated}


def shapes_text(shapes: Json) -> str:
    """What a start compiles, as text: a line for each shape, with the share of the planned calls that run at it."""
    count, expected = len(shapes["rungs"]), _percentages(shapes["expected_utilisation"])
    lines = [f"{count} {'shape' if count == 1 else 'shapes'} to compile; token slots expected to be real: {expected}"]
    for rung in shapes["rungs"]:
        sizes = ", ".join(f"{rung[name]} {name.replace('_', ' ')}" for name in _SIZES if rung[name])
        lines.append(f"  {rung['calls']:4.0%} of calls: rows of {rung['samples']} in {sizes}")
    return "\n".join(lines)


def table(report: Json) -> str:
    """The report as text."""
    held_out, train = report["validation"], report["train"]
    heads = ("held-out", f"step {held_out['first_step']}", f"step {held_out['last_step']}", "zero prediction", "ratio")
    lines = ["".join(f"{head:>18}" for head in heads)]
    for name, values in held_out["losses"].items():
        numbers = [values[part] for part in ("first", "last", "zero", "ratio")]
        lines.append(f"{name:>18}" + "".join(f"{_shown(number):>18}" for number in numbers))
    if train["updates"]:
        lines.append(
            f"{train['updates']} updates logged; median {train['median_step_seconds']:.3f} s a step "
            f"({train['median_data_wait_seconds']:.3f} s waiting for data), "
            f"{train['median_real_tokens_per_second']:,.0f} real tokens/s"
        )
        expected = _percentages(report["shapes"]["expected_utilisation"])
        lines.append(f"token slots that were real: {_percentages(report['utilisation'])}; expected: {expected}")
    return "\n".join(lines)


def write_report(workdir: Path, report: Json) -> None:
    """Puts `report.json` in place in one move."""
    replace_text(workdir / REPORT_FILE, json.dumps(report, indent=1) + "\n")


def _progress(first: Row, last: Row, name: str) -> dict[str, float | None]:
    zero, value = last[f"zero_{name}"], last[name]
    ratio = value / zero if value is not None and zero else None
    return {"first": first[name], "last": value, "zero": zero, "ratio": ratio}


def _percentages(ratios: dict[str, float]) -> str:
    streams = ", ".join(f"{name} {ratio:.0%}" for name, ratio in ratios.items() if name != "all")
    return f"{ratios['all']:.0%} ({streams})"


def _shown(number: float | None) -> str:
    return "-" if number is None else f"{number:.4f}"
