"""The state of a run between two updates, made or restored straight into its shards.

Everything about it is decided on shapes: the state is traced, its shardings follow from paths and shapes, and only then
are values made or read. Trees are pure dicts (optax's tuples for the optimizer), which checkpoints keep as they are.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from wam_jax.policies.base import Params, TrainPolicy
from wam_jax.training.mesh import replicated
from wam_jax.training.optimizer import Optimizer
from wam_jax.training.sharding import optimizer_shardings, parameter_shardings

# The many initialisers take LLVM some 12 s to optimise, for milliseconds of work; unoptimised they take 2 s.
_RUNS_ONCE = {"cpu": {"xla_backend_optimization_level": 0}}

type Array = Any  # jax.Array, or its shape or sharding in a tree of those


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class TrainState:
    """What an update changes.

    Attributes:
        step: int32[], updates done, skipped ones included.
        skipped: int32[], updates that were skipped because a gradient was not finite.
        params: the parameters.
        opt_state: the optimizer's.
        ema: moving average of the parameters, or None.
    """

    step: Array
    skipped: Array
    params: Params
    opt_state: Any
    ema: Params | None

    @property
    def evaluated(self) -> Params:
        """The parameters that validation uses: the moving average where there is one."""
        return self.params if self.ema is None else self.ema


def fresh_state(params: Params, optimizer: Optimizer) -> TrainState:
    """The state before the first update of these parameters; may be traced."""
    zero = jnp.zeros((), jnp.int32)
    ema = jax.tree.map(jnp.array, params) if optimizer.averages else None
    return TrainState(step=zero, skipped=zero, params=params, opt_state=optimizer.transform.init(params), ema=ema)


def abstract_state(mesh: Mesh, policy: TrainPolicy, optimizer: Optimizer) -> TrainState:
    """The state of a run as `jax.ShapeDtypeStruct` leaves with shardings; allocates nothing."""
    shapes = jax.eval_shape(lambda: fresh_state(policy.init(jax.random.key(0)), optimizer))
    params = parameter_shardings(mesh, shapes.params)
    shardings = TrainState(
        step=replicated(mesh),
        skipped=replicated(mesh),
        params=params,
        opt_state=optimizer_shardings(mesh, optimizer.transform, shapes.opt_state, params),
        ema=params if optimizer.averages else None,
    )
    return jax.tree.map(
        lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding), shapes, shardings
    )


def shardings_of(abstract: Any) -> Any:
    """The shardings of an abstract tree."""
    return jax.tree.map(lambda leaf: leaf.sharding, abstract)


def initialise(abstract: TrainState, policy: TrainPolicy, optimizer: Optimizer, *, seed: int) -> TrainState:
    """The first state of a seed, made in its shards; the same values on every mesh."""
    make = jax.jit(
        lambda key: fresh_state(policy.init(key), optimizer),
        out_shardings=shardings_of(abstract),
        compiler_options=_RUNS_ONCE.get(jax.default_backend()),
    )
    return make(jax.random.key(seed))


def start_from(abstract: TrainState, params: Params, optimizer: Optimizer) -> TrainState:
    """The state before the first update of given parameters, which are copied."""
    return jax.jit(lambda given: fresh_state(given, optimizer), out_shardings=shardings_of(abstract))(params)
