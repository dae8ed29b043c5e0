"""Recording named tensors from inside jit, scan and remat.

`tag(x, name)` returns x itself, so that a program that nobody records is the program without tags. While a tape runs, a
tag also puts x on the tape, and what is on the tape becomes an output of the program: inside `scan` an output of the
body, stacked over its rounds, that leaves through `jax.checkpoint` like any other. Nothing is added to the arithmetic
that was there. Tags stand where the compiled program has an array anyway, at operands and results of matrix products
and kernels, so that recording does not move a fusion either; tests compare loss and gradients bit by bit.

For gradients every tag is given a probe: an input of its shape that takes no part in the forward pass, and whose
derivative is by definition that of the tensor.
"""

import contextlib
from collections.abc import Callable, Generator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

type Stream = Literal[
    "video", "action", "text", "samples", "video_samples", "action_samples", "video_copies", "action_copies"
]
"""How the axes of a tensor are to be read (`wam_jax.tracing.samples`)."""

ROUND = "*"
"""Stands in a name for the number of the round of a scan."""


class Recorded(NamedTuple):
    """A tensor on a tape.

    Attributes:
        value: the array; that of a scan leads with its rounds.
        stream: how its other axes are to be read.
        loop: the number of the scan that it was recorded in, or None; tensors of one scan take turns round by round.
    """

    value: Any
    stream: Stream
    loop: int | None


type Trace = dict[str, Recorded]
"""Tensors by name, in the order in which they are computed."""


@dataclass
class _Tape:
    """What has been recorded so far, in order; `probes` are inputs for gradients, by name as well."""

    probes: Trace | None = None
    trace: Trace = field(default_factory=dict)
    loops: int = 0

    def put(self, name: str, recorded: Recorded) -> None:
        if name in self.trace:
            raise ValueError(f"two tensors are called {name}")
        self.trace[name] = recorded

    def probes_of(self, loop: int) -> Any:
        """The probes of the tensors of one scan."""
        if self.probes is None:
            return None
        return {name: probe.value for name, probe in self.probes.items() if probe.loop == loop}


_running: ContextVar[_Tape | None] = ContextVar("running", default=None)
_scope: ContextVar[tuple[str, Stream]] = ContextVar("scope", default=("", "samples"))


@contextlib.contextmanager
def _on(tape: _Tape) -> Generator[_Tape]:
    token = _running.set(tape)
    try:
        yield tape
    finally:
        _running.reset(token)


@contextlib.contextmanager
def scope(name: str, *, stream: Stream) -> Generator[None]:
    """Within it, tags are called `name.TAG` and are of `stream` where they do not say otherwise."""
    token = _scope.set((f"{name}.", stream))
    try:
        yield
    finally:
        _scope.reset(token)


def tag(value: jax.Array, name: str, *, stream: Stream | None = None) -> jax.Array:
    """The value as it is; recorded under a name where a tape runs.

    Args:
        value: an array.
        name: parts separated by dots, behind that of the scope.
        stream: how its axes are to be read; that of the scope by default.
    """
    tape = _running.get()
    if tape is None:
        return value
    prefix, scope_stream = _scope.get()
    name = prefix + name
    if tape.probes is not None:
        value = _probed(value, tape.probes[name].value)
    tape.put(name, Recorded(value, stream or scope_stream, None))
    return value


def scan[Carry, Result](
    body: Callable[[Carry, Any], tuple[Carry, Result]],
    carry: Carry,
    xs: Any,
    *,
    wrap: Callable[[Callable[[Carry, Any], Any]], Callable[[Carry, Any], Any]] = lambda body: body,
) -> tuple[Carry, Result]:
    """`jax.lax.scan(wrap(body), carry, xs)`, from whose body tags reach the tape. Bodies hold no further `scan`."""
    tape = _running.get()
    if tape is None:
        return jax.lax.scan(wrap(body), carry, xs)
    tape.loops += 1
    inner = _Tape()

    def recording(carry: Carry, xs: tuple[Any, Any]) -> tuple[Carry, tuple[Result, dict[str, Any]]]:
        own, probes = xs
        inner.trace.clear()
        inner.probes = None if probes is None else {n: Recorded(p, "samples", None) for n, p in probes.items()}
        with _on(inner):
            carry, result = body(carry, own)
        return carry, (result, {name: recorded.value for name, recorded in inner.trace.items()})

    carry, (result, values) = jax.lax.scan(wrap(recording), carry, (xs, tape.probes_of(tape.loops)))
    for name, recorded in inner.trace.items():
        tape.put(name, Recorded(values[name], recorded.stream, tape.loops))
    return carry, result


def mapped[Result](body: Callable[[Any], Result], xs: Any) -> Result:
    """`jax.lax.map(body, xs)`, from whose body tags reach the tape."""
    if _running.get() is None:
        return jax.lax.map(body, xs)
    return scan(lambda carry, x: (carry, body(x)), None, xs)[1]


def record[Result](function: Callable[..., Result], *args: Any) -> tuple[Result, Trace]:
    """Compiles and calls a function; gives its result and every tensor that is tagged on its way."""
    notes: Trace = {}

    def recording(*args: Any) -> tuple[Result, dict[str, Any]]:
        with _on(_Tape()) as tape:
            result = function(*args)
        notes.update(tape.trace)
        return result, _values(tape.trace)

    result, values = jax.jit(recording)(*args)
    return result, _with_values(notes, values)


def record_gradients(
    loss: Callable[..., jax.Array], params: Any, *args: Any
) -> tuple[tuple[jax.Array, Any], Trace, Trace]:
    """The loss and its gradient in the parameters; every tagged tensor; and the gradient of the loss in each of them.

    Args:
        loss: (params, *args) to a scalar.
        params: what is differentiated in.
        args: the rest.
    """
    notes: Trace = {}

    def recording(params: Any, probes: dict[str, Any] | None, *args: Any) -> tuple[jax.Array, dict[str, Any]]:
        tape = _Tape(None if probes is None else _with_values(notes, probes))
        with _on(tape):
            value = loss(params, *args)
        notes.update(tape.trace)
        return value, _values(tape.trace)

    shapes = jax.eval_shape(lambda params, *args: recording(params, None, *args), params, *args)[1]
    probes = jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)
    run = jax.jit(jax.value_and_grad(recording, argnums=(0, 1), has_aux=True))
    (value, values), (gradient, probe_gradients) = run(params, probes, *args)
    return (value, gradient), _with_values(notes, values), _with_values(notes, probe_gradients)


def _values(trace: Trace) -> dict[str, Any]:
    return {name: recorded.value for name, recorded in trace.items()}


def _with_values(trace: Trace, values: dict[str, Any]) -> Trace:
    return {name: recorded._replace(value=values[name]) for name, recorded in trace.items()}


@jax.custom_vjp
def _probed(value: jax.Array, probe: jax.Array) -> jax.Array:
    """The value; its cotangent is also the probe's."""
    del probe
    return value


def _probed_forward(value: jax.Array, probe: jax.Array) -> tuple[jax.Array, None]:
    del probe
    return value, None


def _probed_backward(_: None, cotangent: jax.Array) -> tuple[jax.Array, jax.Array]:
    return cotangent, cotangent


_probed.defvjp(_probed_forward, _probed_backward)
