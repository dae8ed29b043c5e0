"""Planted faults: one line of a copy of the package is changed, and the table of cases has to notice."""

import contextlib
import importlib
import shutil
import sys
from collections.abc import Generator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import wam_kernels

SOURCE = Path(wam_kernels.__file__).parent


class Fault(NamedTuple):
    """A fault: in `file` every `old` becomes `new`."""

    name: str
    file: str
    old: str
    new: str


SHARED = [
    Fault(
        "full tile despite an invalid key",
        "tiles.py",
        "tiles.full & by_tile.all(1).take(tiles.column)",
        "tiles.full",
    ),
    Fault(
        "last full tile of a line missing",
        "tiles.py",
        "np.column_stack([starts, ends])",
        "np.column_stack([starts, ends[:, 0], np.maximum(ends[:, 1] - 1, ends[:, 0])])",
    ),
    Fault("cotangent of lse dropped", "vjp.py", "Upstream(out, do, lse2, dlse)", "Upstream(out, do, lse2, 0 * dlse)"),
]

_LOOPS = "functools.partial(visit, masked=True)"

XLA = [
    Fault("partial tile called full", "xla.py", _LOOPS, "functools.partial(visit, masked=False)"),
    Fault("last full tile skipped", "xla.py", "lax.fori_loop(full, end,", "lax.fori_loop(full, end - 1,"),
    Fault(
        "forward not masked",
        "xla.py",
        "scores = jnp.where(_visible(row, i, j, size), scores, MASKED)\n            new",
        "pass\n            new",
    ),
    Fault(
        "backward not masked",
        "xla.py",
        "scores = jnp.where(_visible(row, i, j, size), scores, MASKED)\n            p",
        "pass\n            p",
    ),
    Fault(
        "maximum starts at a masked score", "xla.py", "(heads, query_tile), LEAST_PEAK", "(heads, query_tile), MASKED"
    ),
    Fault("output not rescaled", "xla.py", "acc * shrink[..., None] +", "acc +"),
    Fault("sum not rescaled", "xla.py", "total * shrink +", "total +"),
    Fault("0 / 0 in empty rows", "xla.py", "total = jnp.where(seen, total, 1.0)", "total = total"),
    Fault("lse in the wrong base", "xla.py", "jnp.log2(total)", "jnp.log(total)"),
    Fault("sign of delta", "xla.py", ") - delta)", ") + delta)"),
    Fault("dv scaled", "xla.py", "dk / LOG2E, dv", "dk / LOG2E, dv * scale"),
    Fault("dk not freed of its base", "xla.py", "dk / LOG2E", "dk"),
    Fault("range end off by one", "xla.py", "(position < last)", "(position <= last)"),
    Fault("range start off by one", "xla.py", "(first <= position)", "(first < position)"),
    Fault(
        "valid bit dropped", "xla.py", "inside if row.key_valid is None else inside &", "inside if True else inside &"
    ),
    Fault("dk written over", "xla.py", "_cut(x, tile, size) + part", "part"),
]

_HIDE = "scores = jnp.where(_visible(ends, mask, start, key_tile, across=True), scores, MASKED)\n        "
_HIDE_DKV = "scores = jnp.where(_visible(ends, mask, line * key_tile, key_tile, across=False), scores, MASKED)"
_TRITON = "triton_kernels.py"

TRITON = [
    Fault("partial tile called full", _TRITON, _LOOPS, "functools.partial(visit, masked=False)"),
    Fault("last full tile skipped", _TRITON, "lax.fori_loop(full, end,", "lax.fori_loop(full, end - 1,"),
    Fault("forward not masked", _TRITON, f"{_HIDE}new_peak", "pass\n        new_peak"),
    Fault("dq not masked", _TRITON, f"{_HIDE}p = ", "pass\n        p = "),
    Fault("dk and dv not masked", _TRITON, _HIDE_DKV, "pass"),
    Fault("maximum starts at a masked score", _TRITON, "zero + LEAST_PEAK", "zero + MASKED"),
    Fault("output not rescaled", _TRITON, "acc * shrink[:, None] +", "acc +"),
    Fault("0 / 0 in empty rows", _TRITON, "total = jnp.where(seen, total, 1.0)", "total = total"),
    Fault("lse in the wrong base", _TRITON, "jnp.log2(total)", "jnp.log(total)"),
    Fault("sign of delta in dq", _TRITON, "- delta[:, None]", "+ delta[:, None]"),
    Fault("sign of delta in dk", _TRITON, "- delta_ref[queries][None, :]", "+ delta_ref[queries][None, :]"),
    Fault("dv scaled", _TRITON, "dv.astype(dv_ref.dtype)", "(dv * scale2).astype(dv_ref.dtype)"),
    Fault("range end off by one", _TRITON, "(position < last)", "(position <= last)"),
    Fault("valid bit dropped", _TRITON, "if mask.key_valid is None:", "if True:"),
    Fault("lists not transposed", "pallas_triton.py", "by_key", "by_query"),
]

_MOSAIC = "mosaic_kernels.py"

MOSAIC = [
    Fault(
        "partial tile called full",
        _MOSAIC,
        "functools.partial(step, masked=True)",
        "functools.partial(step, masked=False)",
    ),
    Fault("forward and dq not masked", _MOSAIC, "scores = hide(scores, tile)", "pass"),
    Fault("dk and dv not masked", _MOSAIC, "scores = _hide_queries(scores, hidden_smem, base)", "pass"),
    Fault("maximum starts at a masked score", _MOSAIC, "_filled(LEAST_PEAK)", "_filled(MASKED)"),
    Fault("output not rescaled", _MOSAIC, "acc = acc * _spread(shrink, acc.shape, 0)", "pass"),
    Fault("0 / 0 in empty rows", _MOSAIC, "total = jnp.where(seen, total, 1.0)", "total = total"),
    Fault("lse in the wrong base", _MOSAIC, "jnp.log(total) * LOG2E", "jnp.log(total)"),
    Fault("sign of delta in dq", _MOSAIC, "- _spread(delta, shape, 0)", "+ _spread(delta, shape, 0)"),
    Fault("sign of delta in dk", _MOSAIC, "(dp - _spread(plgpu.load(delta_smem", "(dp + _spread(plgpu.load(delta_smem"),
    Fault("dv scaled", _MOSAIC, "jnp.where(valid, dv, 0.0)", "jnp.where(valid, dv * plan.scale2, 0.0)"),
    Fault("end of a hidden stretch off by one", _MOSAIC, "(position < last)", "(position <= last)"),
    Fault("valid bit dropped", _MOSAIC, "jnp.where(_spread(valid, scores.shape, 1), scores, MASKED)", "scores"),
    Fault(
        "valid bit dropped in dk",
        _MOSAIC,
        "jnp.where(valid, dk * (plan.scale2 / LOG2E), 0.0)",
        "(dk * (plan.scale2 / LOG2E))",
    ),
    Fault("lists not transposed", "pallas_mosaic.py", "by_key", "by_query"),
    Fault("what lies behind the last range is seen", "operands.py", "constant_values=end)", "constant_values=0)"),
]

FAULTS = {"xla": SHARED + XLA, "pallas_triton": SHARED + TRITON, "pallas_mosaic": SHARED + MOSAIC}


def plant(fault: Fault, folder: Path) -> None:
    """Copies the package into `folder` and changes it there."""
    shutil.copytree(SOURCE, folder / SOURCE.name, ignore=shutil.ignore_patterns("__pycache__"))
    path = folder / SOURCE.name / fault.file
    text = path.read_text()
    if fault.old not in text:
        raise LookupError(f"{fault.file} no longer has the line of: {fault.name}")
    path.write_text(text.replace(fault.old, fault.new))


@contextlib.contextmanager
def planted(fault: Fault, folder: Path) -> Generator[tuple[ModuleType, ModuleType]]:
    """The modules `cases` and `backends` of these tests, over a package that has the fault."""
    plant(fault, folder)
    aside = {name: sys.modules.pop(name) for name in list(sys.modules) if _concerned(name)}
    sys.path.insert(0, str(folder))
    try:
        modules = importlib.import_module("tests.kernels.cases"), importlib.import_module("tests.kernels.backends")
        assert Path(str(importlib.import_module("wam_kernels").__file__)).is_relative_to(folder)
        yield modules
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if _concerned(name)]:
            del sys.modules[name]
        sys.modules.update(aside)
        for name, module in aside.items():
            parent, _, leaf = name.rpartition(".")
            if parent:
                setattr(sys.modules[parent], leaf, module)


def _concerned(name: str) -> bool:
    return name.split(".")[0] == "wam_kernels" or name in ("tests.kernels.cases", "tests.kernels.backends")
