"""A plan for people: one page of text."""

import re
from collections.abc import Iterable, Sequence

from wam_jax.planning.changes import Change
from wam_jax.planning.planner import Plan
from wam_kernels.resources import Resources

_GIGA, _NEXT_UNIT = 1e9, 1000


def page(plan: Plan, changes: Sequence[Change]) -> str:
    """Everything but the JSON's details."""
    parts = [_headline(plan), _memory(plan), _programs(plan), _sent(plan), _work(plan), _kernels(plan)]
    return "\n\n".join([part for part in parts if part] + [verdict(plan, changes)])


def verdict(plan: Plan, changes: Sequence[Change]) -> str:
    """Whether it fits, and if not, what would."""
    spare = plan.memory.spare
    if plan.fits:
        return f"fits: {_size(spare)} to spare"
    lines = [f"does not fit: {_size(-spare)} too many"]
    for change in changes:
        fields = " ".join(f"--config.{name}={value}".replace(" ", "") for name, value in change.overrides.items())
        outcome = "fits" if change.fits else "does not fit either"
        lines.append(f"  {change.kind}: {fields}   {outcome} with {_size(change.peak)} ({change.by})")
    return "\n".join(lines if changes else [*lines, "  no single change that was tried makes it fit"])


def _headline(plan: Plan) -> str:
    topology, mesh = plan.topology, " x ".join(f"{axis} {size}" for axis, size in plan.mesh.items())
    hosts = f"{topology.hosts} host{'s' if topology.hosts > 1 else ''}"
    return (
        f"{plan.name} on {topology.devices} x {topology.target} ({hosts}), mesh {mesh}: "
        f"{plan.parameters['total']:,} parameters; an update has {plan.samples_per_update:,} samples in "
        f"{plan.calls_per_update:.3g} microbatches"
    )


def _memory(plan: Plan) -> str:
    memory = plan.memory
    rows = [
        ("parameters", memory.parameters, ""),
        ("optimizer", memory.optimizer, ""),
        ("moving average", memory.average, ""),
        ("gradients", memory.gradients, "added up over the microbatches of an update"),
        ("batches", memory.batches, "two of the largest rung"),
        ("temporaries", memory.gradient_temporaries, f"gradient program; {_saved(plan)}"),
        ("", memory.update_temporaries, "update program, when there are no batches"),
        ("peak", memory.peak, f"of {_size(memory.usable)} usable"),
    ]
    lines = [f"  {name:15}{_size(size):>10}  {note}".rstrip() for name, size, note in rows]
    return "\n".join(["memory of a device", *lines])


def _saved(plan: Plan) -> str:
    return f"about {_size(plan.memory.saved_activations)} of it activations for the backward pass (estimate by shapes)"


def _programs(plan: Plan) -> str:
    rows = [
        (one.name, _size(one.arguments), _size(one.outputs), _size(one.temporaries), f"{one.seconds:.0f} s")
        for one in (*plan.gradients, plan.update)
    ]
    return _table([("program", "arguments", "outputs", "temporaries", "compiled in"), *rows])


def _sent(plan: Plan) -> str:
    if not plan.collectives:
        return ""
    rows = [(one.kind, one.axes, f"{one.calls:.4g}", f"{one.sent / _GIGA:.3g}") for one in plan.collectives]
    return _table([("sent in an update", "over", "calls", "GB by each device"), *rows])


def _work(plan: Plan) -> str:
    work, compiler = plan.work, plan.gradients[-1].compiler_flops
    own = f"{compiler:.3g} a microbatch, loops once, no kernels" if compiler else "none for this target"
    return (
        f"a real token takes {work.total / _GIGA:.3g} GFLOP: {work.matmul / _GIGA:.3g} in matrix products, "
        f"{work.attention / _GIGA:.3g} in attention over tiles\n(analytic; the compiler's own count: {own})"
    )


def _kernels(plan: Plan) -> str:
    costs: dict[str, list[Resources]] = {}
    for name, cost in (item for one in plan.gradients for item in one.kernels.items()):
        costs.setdefault(re.sub(r"_\d+$", "", name), []).append(cost)
    if not costs:
        return ""
    fields = ("registers", "spilled_bytes", "shared_memory")
    rows = [
        (name, *(str(max(getattr(cost, field) for cost in found)) for field in fields)) for name, found in costs.items()
    ]
    return _table([("kernel, at most", "registers", "spilled bytes", "shared memory"), *rows])


def _table(rows: Sequence[Iterable[str]]) -> str:
    cells = [list(row) for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    lines = []
    for first, *others in cells:
        numbers = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *numbers]).rstrip())
    return "\n".join(lines)


def _size(count: float) -> str:
    """Bytes to three or four digits."""
    for unit in ("B", "KiB", "MiB"):
        if count < _NEXT_UNIT:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.2f} GiB"
