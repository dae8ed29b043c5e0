"""Routes: which objective is trained on episodes of which source, and how often.

A *source* is one of two kinds of data. Real demonstrations follow their instruction. Counterfactual branches begin at a
state of a demonstration and go on with other actions, so they show dynamics and no behaviour to imitate. The store's
own sources are free names; the configuration says which of them are branches.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wam_jax.config.schema import Config
from wam_jax.data.storage.index import Index
from wam_jax.errors import InputError
from wam_jax.sequence import Objective
from wam_jax.sequence.programs import PROGRAMS

REAL, COUNTERFACTUAL = "real_demo", "counterfactual_dynamics"
_SHORT = {REAL: "real", COUNTERFACTUAL: "counterfactual"}


@dataclass(frozen=True)
class Route:
    """One objective on one source.

    Attributes:
        source: `REAL` or `COUNTERFACTUAL`.
        objective: what its draws train.
        share: of all draws, in expectation.
    """

    source: str
    objective: Objective
    share: float = 1.0

    @property
    def name(self) -> str:
        """`real_joint`, `counterfactual_action_conditioned_video`, ..."""
        return f"{_SHORT[self.source]}_{self.objective.label}"


def active_routes(config: Config) -> tuple[Route, ...]:
    """The routes that are ever drawn, in their order, with shares that add up to 1.

    A configuration without routes has the one that its program implies: its objective on real demonstrations.
    """
    given = [route for route in config.data.routing.routes if route[2] > 0]
    if not given:
        return (Route(REAL, PROGRAMS[config.policy.program].fixed_objective or Objective.JOINT),)
    total = sum(weight for *_, weight in given)
    return tuple(Route(source, Objective[name.upper()], weight / total) for source, name, weight in given)


def objectives_of(routes: tuple[Route, ...]) -> tuple[Objective, ...]:
    """The objectives of some routes, each once, ascending."""
    return tuple(sorted({route.objective for route in routes}))


def episodes_of(
    route: Route, index: Index, episodes: np.ndarray, *, counterfactual: Sequence[str], split: str
) -> np.ndarray:
    """The episodes that a route draws from: int64, positions in the index.

    Args:
        route: the route.
        index: the store's.
        episodes: those of the split.
        counterfactual: the store's sources whose episodes are branches.
        split: its name, for messages.
    Raises:
        InputError: there are none.
    """
    branches = np.isin(index.sources[episodes].astype(str), counterfactual)
    found = episodes[branches == (route.source == COUNTERFACTUAL)]
    if not found.size:
        known = ", ".join(sorted(set(index.sources[episodes])))
        remedy = f"no {split} episode is one (sources: {known}); see data.routing.counterfactual_sources"
        raise InputError(f"route {route.name}: source", route.source, remedy)
    return found
