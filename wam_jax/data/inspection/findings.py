"""From what was gathered to what should be said: problems, which training would suffer from, and notes.

problem   actions that come after the motion they cause; sources that are aligned unlike each other; an episode both
          in training and in validation; episodes whose latents look like another encoder's; actions that never move
note      the estimated lag; dimensions that never change or are clipped; episodes that are there twice
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from wam_jax.data.inspection.lag import MAX_LAG, Lag
from wam_jax.data.inspection.traits import FEW, ActionTraits, Traits
from wam_jax.data.storage.splits import hashed_split
from wam_jax.data.storage.store import Store

CLIPPED = 0.1
"""Share of values at the ends of a dimension's range that is called clipped."""
FOREIGN = 0.7
"""Mean difference of log deviations over the channels that calls latents another encoder's: a factor of two."""
CODE_DELAY = 2
"""Steps by which a group of four frames changes late by itself."""
_SHOWN = 5


@dataclass(frozen=True)
class Finding:
    """One line.

    Attributes:
        problem: whether it is one; else a note.
        text: what was found, and what to do.
    """

    problem: bool
    text: str


def find(store: Store, traits: Traits) -> list[Finding]:
    """All that is to say of a store."""
    if not traits.episodes:
        return []
    names = [str(store.index.ids[episode]) for episode in traits.episodes]
    found = [*_lags(traits), *_duplicates(store, traits, names), *_foreign(traits, names), *_still(traits, names)]
    return [*found, *(_dimensions(traits.actions) if traits.actions else ())]


def _lags(traits: Traits) -> Iterator[Finding]:
    by_states: dict[str, int] = {}
    for source, estimator in sorted(traits.lags.items()):
        states, video = estimator.states(), estimator.video()
        if states is None and video is None:
            yield Finding(False, f"alignment of {source}: motion says too little about actions to tell")
            continue
        if states is not None:
            by_states[source] = states.steps
        said = ", ".join(_said(lag, name) for lag, name in ((states, "states"), (video, "video")) if lag)
        late = (states.steps if states else video.steps if video else 0) < 0
        if late:
            remedy = "motion comes before its action: actions were recorded late; convert again with --action-shift"
            yield Finding(True, f"alignment of {source}: {said}: {remedy} {-min(_steps(states, video))}")
        else:
            yield Finding(False, f"alignment of {source}: {said}")
    if len(set(by_states.values())) > 1:
        said = ", ".join(f"{source} {steps:+d}" for source, steps in by_states.items())
        yield Finding(True, f"alignment differs between sources ({said} steps): align them alike, or name their robots")


def _steps(states: Lag | None, video: Lag | None) -> list[int]:
    return [states.steps] if states else [video.steps] if video else [0]


def _said(lag: Lag, name: str) -> str:
    beyond = " or more" if abs(lag.steps) == MAX_LAG else ""
    by_itself = f" (a code lags by about {CODE_DELAY} by itself)" if name == "video" else ""
    return f"{name} follow actions by {lag.steps:+d}{beyond} raw frames, {lag.explained:.0%} explained{by_itself}"


def _duplicates(store: Store, traits: Traits, names: list[str]) -> Iterator[Finding]:
    groups: dict[bytes, list[int]] = defaultdict(list)
    for position, digest in enumerate(traits.digests):
        groups[digest].append(position)
    splits = [store.index.splits[episode] or hashed_split(store.index.ids[episode]) for episode in traits.episodes]
    doubled = [group for group in groups.values() if len(group) > 1]
    leaking = [group for group in doubled if len({splits[position] for position in group}) > 1]
    if leaking:
        yield Finding(True, f"the same episode trains and validates: {_list(leaking, names)}")
    within = [group for group in doubled if group not in leaking]
    if within:
        yield Finding(False, f"the same episode is there more than once: {_list(within, names)}")


def _list(groups: list[list[int]], names: list[str]) -> str:
    shown = "; ".join(" = ".join(names[position] for position in group[:3]) for group in groups[:_SHOWN])
    return shown + (f"; and {len(groups) - _SHOWN} more" if len(groups) > _SHOWN else "")


def _foreign(traits: Traits, names: list[str]) -> Iterator[Finding]:
    """Compares the deviation of each channel with that of the middle episode."""
    spreads = np.stack(traits.spreads)
    away = np.abs(spreads - np.median(spreads, axis=0)).mean(axis=1)
    odd = np.flatnonzero(away > FOREIGN)
    if odd.size:
        shown = ", ".join(names[position] for position in odd[:_SHOWN])
        remedy = "look at them; latents of two encoders or scalings are never mixed"
        yield Finding(True, f"latents of {odd.size} episodes are spread unlike the others' ({shown}): {remedy}")


def _still(traits: Traits, names: list[str]) -> Iterator[Finding]:
    still = [name for name, is_still in zip(names, traits.still, strict=True) if is_still]
    if still:
        shown = ", ".join(still[:_SHOWN])
        yield Finding(True, f"actions never change in {len(still)} episodes ({shown}): leave them out, or record again")


def _dimensions(actions: ActionTraits) -> Iterator[Finding]:
    for dim, count in enumerate(actions.count.tolist()):
        if not count or actions.low[dim] == actions.high[dim]:
            yield Finding(False, f"action dimension {dim} never changes")
            continue
        share = float(actions.at_low[dim] + actions.at_high[dim]) / count
        if share > CLIPPED and len(actions.values[dim]) > FEW:
            ends = f"{actions.low[dim]:g} and {actions.high[dim]:g}"
            yield Finding(False, f"action dimension {dim} is clipped: {share:.0%} of it lies at {ends}")
