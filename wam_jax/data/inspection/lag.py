"""By how many raw frames motion follows the actions that cause it: an estimate of whether actions are aligned.

Row i of the actions leads from raw frame i to raw frame i + 1. So what moves between these frames is explained best by
action i where a robot obeys at once, by an earlier one where it is slow, and by a *later* one only where the actions
were recorded too late. For every lag l in [-MAX_LAG, MAX_LAG]

    states   change of the state over step i, explained by action i - l (linear, R^2)
    video    change of the latents into frame k, explained by the size of the actions of its group, l steps earlier
             (correlation squared; a group covers four raw frames, so a code changes about two steps late by itself)

over all steps of all episodes, each episode around its own mean. Actions may be changes or targets, so the same is
tried with what they change by from row to row, and what explains more counts. The lag with the most explained is the
estimate. A store with A actions per latent frame and s raw frames has A / s actions a step, which are averaged.
"""

from dataclasses import dataclass, field

import numpy as np

from wam_jax.data.storage.units import Units

MAX_LAG = 8
MIN_STEPS = 40
MIN_EXPLAINED = 0.1
"""Below, motion says nothing about actions."""


@dataclass(frozen=True)
class Lag:
    """An estimate.

    Attributes:
        steps: raw frames by which motion follows the actions; negative where it comes before them.
        explained: share of the variance at that lag.
    """

    steps: int
    explained: float


@dataclass
class _Sums:
    """Second moments of predictors and outcomes, gathered episode by episode."""

    steps: int = 0
    xx: np.ndarray | float = 0.0
    xy: np.ndarray | float = 0.0
    yy: np.ndarray | float = 0.0

    def add(self, x: np.ndarray, y: np.ndarray) -> None:
        x, y = x - x.mean(axis=0), y - y.mean(axis=0)
        self.steps += len(x)
        self.xx, self.xy, self.yy = self.xx + x.T @ x, self.xy + x.T @ y, self.yy + np.square(y).sum(axis=0)

    def explained(self) -> float:
        """Mean R^2 over the outcomes that vary."""
        xx, xy, yy = np.atleast_2d(self.xx), np.atleast_2d(self.xy), np.atleast_1d(self.yy)
        moving = yy > 1e-12 * max(float(yy.max(initial=0.0)), 1e-30)
        if not moving.any():
            return 0.0
        weights = np.linalg.pinv(xx, hermitian=True) @ xy
        return float(np.clip(((weights * xy).sum(axis=0)[moving] / yy[moving]).mean(), 0, 1))


_ByLag = dict[tuple[str, int], _Sums]


@dataclass
class LagEstimator:
    """Gathers the episodes of one source.

    Attributes:
        units: of the store.
    """

    units: Units
    _states: _ByLag = field(default_factory=dict)
    _video: _ByLag = field(default_factory=dict)

    def add(self, arrays: dict[str, np.ndarray]) -> None:
        """Adds an episode as `Store.read` gives it."""
        actions = self._steps(arrays)
        if actions is None or len(actions) < 2 * MAX_LAG + 4:
            return
        if "state" in arrays:
            self._add_states(actions, arrays["state"].astype(np.float64)[: len(actions) + 1])
        self._add_video(actions, arrays["video_latents"].astype(np.float32))

    def states(self) -> Lag | None:
        """By the states; None where there are too few or they say nothing."""
        return _best(self._states)

    def video(self) -> Lag | None:
        """By the latents, in raw frames; None where there are too few or they say nothing."""
        return _best(self._video)

    def _steps(self, arrays: dict[str, np.ndarray]) -> np.ndarray | None:
        """The recorded actions, one per raw step: float64 `[steps, D]`; None where slots do not fill steps."""
        A, s = self.units.actions_per_frame, self.units.temporal_stride
        if A < 1 or A % s:
            return None
        actions, mask = arrays["actions"][A:].astype(np.float64), arrays.get("action_mask")
        if mask is not None:
            actions = actions[: int(mask[A:].any(axis=1).sum())]
        whole = len(actions) // (A // s)
        return actions[: whole * (A // s)].reshape(whole, A // s, -1).mean(axis=1)

    def _add_states(self, actions: np.ndarray, states: np.ndarray) -> None:
        change = np.diff(states, axis=0)
        steps = np.arange(MAX_LAG + 1, min(len(change), len(actions)) - MAX_LAG)
        if not len(steps):
            return
        for lag in range(-MAX_LAG, MAX_LAG + 1):
            now, before = actions[steps - lag], actions[steps - lag - 1]
            for kind, predictors in (("changes", now), ("targets", now - before)):
                self._states.setdefault((kind, lag), _Sums()).add(predictors, change[steps])

    def _add_video(self, actions: np.ndarray, latents: np.ndarray) -> None:
        s = self.units.temporal_stride
        motion = np.sqrt(np.square(np.diff(latents, axis=1)).mean(axis=(0, 2, 3)))
        sizes = np.linalg.norm(actions, axis=1)
        jumps = np.concatenate([[0.0], np.linalg.norm(np.diff(actions, axis=0), axis=1)])
        # The first frame is coded alone, so the step from it is unlike the others.
        first = np.array([s * (k - 1) for k in range(2, latents.shape[1])])
        inside = (first >= MAX_LAG) & (first + s + MAX_LAG <= len(actions))
        if inside.sum() < 3:
            return
        outcome = motion[1:][inside][:, None].astype(np.float64)
        for lag in range(-MAX_LAG, MAX_LAG + 1):
            groups = (first[inside] - lag)[:, None] + np.arange(s)
            for kind, predictor in (("changes", sizes), ("targets", jumps)):
                mean = predictor[groups].mean(axis=1, keepdims=True)
                self._video.setdefault((kind, lag), _Sums()).add(mean, outcome)


def _best(sums: _ByLag) -> Lag | None:
    if not sums or min(item.steps for item in sums.values()) < MIN_STEPS:
        return None
    explained = {key: item.explained() for key, item in sums.items()}
    # Of lags that explain the same, the one nearest to none.
    best = max(explained, key=lambda key: (round(explained[key], 4), -abs(key[1])))
    return Lag(best[1], explained[best]) if explained[best] >= MIN_EXPLAINED else None
