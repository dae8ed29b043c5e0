"""Which single change would make a run fit that does not.

Four kinds are tried, the harmless first: what is recomputed, how many devices share the parameters, how an update is
cut into microbatches, and how large a row may get. Of each kind the smallest change is taken that fits by shape
arithmetic: state, gradients and batches are exact, saved activations follow from the traced program, and the other
temporaries grow with a row's token slots. What should fit is then compiled, one after another, until something does;
the kinds behind that say that they were not.
"""

import dataclasses
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from wam_jax.config import Config
from wam_jax.config.validate import validate
from wam_jax.data.batching.rungs import token_slots
from wam_jax.data.storage.store import Store
from wam_jax.errors import InputError
from wam_jax.planning.abstract import AbstractRun, abstract_run
from wam_jax.planning.memory import Memory, device_bytes, memory_of
from wam_jax.planning.planner import Plan, Progress, make_plan
from wam_jax.planning.topology import planned_mesh
from wam_jax.planning.tracing import saved_bytes

type Overrides = dict[str, Any]

_KEEPING = ("none", "save_attention", "block", "offload")
"""Policies of `backbone.remat`, each keeping less on the device than the one before."""

_EIGHTHS = range(7, 0, -1)
"""Of what a row holds now."""


@dataclass(frozen=True)
class Change:
    """Fields to set, and what a device then holds.

    Attributes:
        kind: what is changed: `remat`, `fsdp`, `microbatch` or `rung`; only a rung changes what is trained together.
        overrides: dotted name to value.
        peak: bytes of the fullest moment.
        fits: whether they are within what may be used.
        by: how that is known.
    """

    kind: str
    overrides: Overrides
    peak: int
    fits: bool
    by: Literal["compiled", "shape arithmetic"]


def changes(config: Config, store: Store, plan: Plan, progress: Progress) -> list[Change]:
    """At most one change of a kind; none of a kind that does not help."""
    found: list[Change] = []
    for kind, candidates in _candidates(config, plan).items():
        progress(f"looking for a {kind} that fits")
        estimates = (_estimate(kind, config, overrides, store, plan) for overrides in candidates)
        hopeful = (estimate for estimate in estimates if estimate and estimate.fits)
        if any(change.fits for change in found):
            found += [*itertools.islice(hopeful, 1)]
            continue
        compiled = (_compiled(change, config, store, plan, progress) for change in hopeful)
        found += _until_one_fits(compiled)
    return found


def _until_one_fits(compiled: Iterator[Change]) -> list[Change]:
    """The first that fits, else the last, which then is the nearest."""
    last: list[Change] = []
    for change in compiled:
        last = [change]
        if change.fits:
            break
    return last


def changed(config: Config, overrides: Overrides) -> Config:
    """The configuration with some fields set.

    Raises:
        InputError: it breaks a rule.
    """
    for name, value in overrides.items():
        config = _with(config, name.split("."), value)
    validate(config)
    return config


def _with[Group](group: Group, path: list[str], value: Any) -> Group:
    name, *rest = path
    inner = _with(getattr(group, name), rest, value) if rest else value
    return dataclasses.replace(group, **{name: inner})  # ty: ignore[invalid-argument-type]


def _candidates(config: Config, plan: Plan) -> dict[str, Iterator[Overrides]]:
    return {
        "remat": _remat(config, plan),
        "fsdp": _fsdp(plan),
        "microbatch": _microbatch(config),
        "rung": _rung(config, plan),
    }


def _remat(config: Config, plan: Plan) -> Iterator[Overrides]:
    policies = _KEEPING if plan.topology.is_gpu else _KEEPING[:-1]  # A CPU has no other memory to offload to.
    fewer = policies[_KEEPING.index(config.backbone.remat) + 1 :]
    return ({"backbone.remat": policy} for policy in fewer)


def _fsdp(plan: Plan) -> Iterator[Overrides]:
    data, fsdp = plan.mesh.values()
    shares = [share for share in range(2, data + 1) if data % share == 0]
    return ({"trainer.mesh": (data // share, fsdp * share)} for share in shares)


def _microbatch(config: Config) -> Iterator[Overrides]:
    """Of the same update: fewer samples a row, accumulated more often."""
    samples, accumulation = config.data.train_batch_size, config.training.gradient_accumulation_steps
    if config.data.batching.max_tokens is not None:
        return
    for fewer in range(samples - 1, 0, -1):
        if samples % fewer == 0:
            more = accumulation * samples // fewer
            yield {"data.train_batch_size": fewer, "training.gradient_accumulation_steps": more}


def _rung(config: Config, plan: Plan) -> Iterator[Overrides]:
    """A lower budget of tokens where rows are packed, else shorter segments where segments are cut."""
    construction, batching = config.data.sample_construction, config.data.batching
    if batching.mode == "packed":
        largest = batching.max_tokens or plan.row_slots
        yield from ({"data.batching.max_tokens": largest * part // 8} for part in _EIGHTHS)
    elif construction.mode == "uniform_segment" and construction.max_segment_frames:
        longest = construction.max_segment_frames
        yield from ({"data.sample_construction.max_segment_frames": longest * part // 8} for part in _EIGHTHS)


def _estimate(kind: str, config: Config, overrides: Overrides, store: Store, plan: Plan) -> Change | None:
    """None where the changed run is none."""
    try:
        other = changed(config, overrides)
        with planned_mesh(plan.topology, other.trainer.mesh) as mesh:
            memory = _memory(abstract_run(other, store, mesh), plan)
    except InputError:
        return None
    return Change(kind, overrides, memory.peak, memory.spare >= 0, by="shape arithmetic")


def _memory(run: AbstractRun, plan: Plan) -> Memory:
    now, saved = plan.memory, saved_bytes(run.traced_gradient(-1).jaxpr.jaxpr)
    slots = token_slots(run.data.shapes.ladder.rungs[-1], run.data.constants)
    rest = max(0, now.gradient_temporaries - now.saved_activations)
    return memory_of(
        run,
        gradient_temporaries=saved + rest * slots // plan.row_slots,
        update_temporaries=now.update_temporaries * device_bytes(run.state.params) // now.parameters,
        saved_activations=saved,
        usable=now.usable,
    )


def _compiled(change: Change, config: Config, store: Store, plan: Plan, progress: Progress) -> Change:
    other, usable = changed(config, change.overrides), plan.memory.usable
    memory = make_plan(other, store, plan.topology, rungs="largest", usable=usable, progress=progress).memory
    return dataclasses.replace(change, peak=memory.peak, fits=memory.spare >= 0, by="compiled")
