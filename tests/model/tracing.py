"""Looking into traced programs."""

from collections.abc import Iterator
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr


def equations(jaxpr: Jaxpr) -> Iterator[Any]:
    """Every equation of a jaxpr and of those inside its equations."""
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in jax.tree.leaves(eqn.params, is_leaf=lambda x: isinstance(x, Jaxpr | ClosedJaxpr)):
            if isinstance(inner, Jaxpr | ClosedJaxpr):
                yield from equations(inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner)
