"""Compiling ahead: one gradient program for each rung of the run, before the first update.

After it no update compiles anything, whatever its samples carry, because a batch is of one of these shapes. With a
persistent compilation cache (`JAX_COMPILATION_CACHE_DIR`) a second start takes them from there.
"""

import sys
from collections.abc import Callable, Sequence

import jax
from jax.sharding import Mesh
from tqdm import tqdm

from wam_jax.data.transport import RowBatch
from wam_jax.training.mesh import put_rows
from wam_jax.training.programs import Programs
from wam_jax.training.state import TrainState


def compile_ahead(
    programs: Programs,
    state: TrainState,
    batches: Sequence[RowBatch],
    mesh: Mesh,
    *,
    until: Callable[[], bool] = lambda: False,
) -> None:
    """Compiles the gradient program for batches of these shapes; their contents do not matter.

    Args:
        programs: of the run.
        state: for the shapes and shardings of the parameters.
        batches: one a rung, this process's rows.
        mesh: the run's.
        until: whether to leave the rest, as there will be no update; the same on all processes.
    """
    total = programs.zeros()
    for batch in tqdm(batches, desc="compiling", unit="shape", file=sys.stderr, leave=False):
        if until():
            break
        shapes = jax.tree.map(_shape, (state.params, total, put_rows(mesh, batch)))
        programs.gradient.lower(*shapes).compile()


def _shape(array: jax.Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=array.sharding)
