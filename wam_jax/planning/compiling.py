"""One program compiled for a topology, and the figures that a plan is made of."""

import time
from dataclasses import dataclass, field
from typing import Any

import jax
from jax.sharding import Mesh

from wam_jax.planning.collectives import Collective, collectives
from wam_jax.planning.tracing import matmul_flops, saved_bytes
from wam_kernels.resources import Resources, compiled_with_resources

_KERNELS = "range_attention"


@dataclass(frozen=True)
class Compiled:
    """A program on one device; sizes in bytes.

    Attributes:
        name: `gradient` with the number of its rung, or `update`.
        arguments: what it is given.
        outputs: what it gives.
        aliased: of the outputs, what takes the place of donated arguments.
        temporaries: what the compiler allocates beside these.
        host_temporaries: of the host's memory, for each device.
        saved: activations kept for the backward pass, by shape arithmetic (an estimate; part of `temporaries`).
        matmul_flops: of the matrix products, attention over tiles left out.
        compiler_flops: the compiler's own count, which runs loops once and knows no kernels; None where it gives none.
        collectives: what is sent.
        kernels: what the attention kernels cost, those that this process has not compiled before.
        seconds: lowering and compiling.
    """

    name: str
    arguments: int
    outputs: int
    aliased: int
    temporaries: int
    host_temporaries: int
    saved: int
    matmul_flops: int
    compiler_flops: float | None
    collectives: list[Collective]
    kernels: dict[str, Resources] = field(default_factory=dict)
    seconds: float = 0.0


def compile_program(name: str, traced: jax.stages.Traced, mesh: Mesh, *, is_gpu: bool) -> Compiled:
    """Compiles a traced program for the devices of its arguments."""
    begun = time.perf_counter()
    if is_gpu:
        compiled, kernels = compiled_with_resources(traced, prefix=_KERNELS)
    else:
        compiled, kernels = traced.lower().compile(), {}
    sizes: Any = compiled.memory_analysis()
    cost = compiled.cost_analysis() or {}
    return Compiled(
        name=name,
        arguments=sizes.argument_size_in_bytes,
        outputs=sizes.output_size_in_bytes,
        aliased=sizes.alias_size_in_bytes,
        temporaries=sizes.temp_size_in_bytes,
        host_temporaries=sizes.host_temp_size_in_bytes,
        saved=saved_bytes(traced.jaxpr.jaxpr),
        matmul_flops=matmul_flops(traced.jaxpr.jaxpr),
        compiler_flops=cost.get("flops"),
        collectives=collectives(compiled.as_text() or "", mesh.shape),
        kernels=kernels,
        seconds=time.perf_counter() - begun,
    )
