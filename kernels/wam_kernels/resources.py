"""What compiled kernels cost on a GPU: registers, spilled bytes, shared memory and the instructions that count.

`kernel_resources` and `compiled_with_resources` compile for compile-only devices (`wam_kernels.deviceless`) and read
the compiler's own reports: XLA's PTX dump through `ptxas -v` and its thunk listing for Triton kernels, for its own
Mosaic's dump.
"""

import contextlib
import dataclasses
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from typing import Any

import jax


@dataclasses.dataclass
class Resources:
    """One kernel's cost.

    Attributes:
        registers: registers a thread, as allocated by ptxas.
        spilled_bytes: bytes of spill stores a thread.
        shared_memory: bytes a block, static and dynamic.
        serialized_wgmma: ptxas had to wait after each wgmma (its warnings C75xx).
        instructions: how often each of `INSTRUCTIONS` occurs in the PTX.
    """

    registers: int = 0
    spilled_bytes: int = 0
    shared_memory: int = 0
    serialized_wgmma: bool = False
    instructions: dict[str, int] = dataclasses.field(default_factory=dict)


INSTRUCTIONS = ("wgmma.mma_async", "mma.sync", "cp.async.bulk", "cp.async.cg", ".tf32", "setmaxnreg")


def kernel_resources(function: Callable[..., Any], *args: Any) -> dict[str, Resources]:
    """Compiles `function` for the shapes and shardings of `args`, and reports each kernel by name.

    Mosaic does not dump a kernel that the process has built before, so a second report of the same kernel lacks it.

    Raises:
        RuntimeError: if ptxas rejects the PTX.
    """
    return compiled_with_resources(jax.jit(function).trace(*args))[1]


def compiled_with_resources(
    traced: jax.stages.Traced, *, prefix: str = ""
) -> tuple[jax.stages.Compiled, dict[str, Resources]]:
    """Compiles a traced program, and reports each of its kernels whose name begins with `prefix`.

    Raises:
        RuntimeError: if ptxas rejects the PTX.
    """
    with tempfile.TemporaryDirectory() as folder, _environment(MOSAIC_GPU_DUMP_TO=folder):
        options = {"xla_dump_to": folder, "xla_dump_emitter_re": "ptx"}
        with _quiet(pathlib.Path(folder, "log")):
            compiled = traced.lower().compile(compiler_options=options)
        kernels = _read(pathlib.Path(folder), prefix)
    return compiled, {name: cost for name, cost in kernels.items() if name.startswith(prefix)}


def _read(folder: pathlib.Path, prefix: str) -> dict[str, Resources]:
    kernels: dict[str, Resources] = {}
    for path in sorted(folder.glob("module_*.ptx")):
        ptx = path.read_text()
        if f".entry {prefix}" in ptx:  # Assembling all of a large program again would take as long as compiling it.
            kernels |= _from_log(_assemble(path), ptx)
    for path in sorted(folder.glob("*.ptxas")):
        (kernel,) = _from_log(path.read_text(), path.with_suffix(".ptx").read_text()).values()
        kernel.shared_memory = _scratch(folder, re.sub(r"_\d+$", "", path.stem))
        kernels[path.stem] = kernel
    for path in folder.glob("*thunk_sequence.txt"):
        for name, used in re.findall(r"(\w+) grid: \[.*?shared_memory: (\d+) bytes", path.read_text()):
            if name in kernels:
                kernels[name].shared_memory = int(used)
    return kernels


def _scratch(folder: pathlib.Path, name: str) -> int:
    """Shared memory of a Mosaic kernel. Its calls are numbered apart in this report, and all take the same."""
    reports = (path.read_text() for path in folder.glob(f"{name}_*.resources.txt"))
    return max((_number(r"smem_scratch_bytes=(\d+)", report) for report in reports), default=0)


def _assemble(ptx: pathlib.Path) -> str:
    """The log of `ptxas -v` over a PTX file."""
    target = re.search(r"^\.target (\w+)", ptx.read_text(), re.MULTILINE)
    arch = target[1] if target else "sm_80"
    command = [_ptxas(), f"-arch={arch}", "-v", str(ptx), "-o", os.devnull]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"ptxas rejects {ptx.name}: {done.stderr}")
    return done.stdout + done.stderr


def _ptxas() -> str:
    """The ptxas of the wheel, which XLA itself uses, else the one on PATH."""
    wheel = importlib.util.find_spec("nvidia")
    roots = wheel.submodule_search_locations if wheel else None
    for root in roots or ():
        if (path := pathlib.Path(root) / "cuda_nvcc/bin/ptxas").exists():
            return str(path)
    return "ptxas"


def _from_log(log: str, ptx: str) -> dict[str, Resources]:
    """Every kernel of a `ptxas -v` log, with the instructions of its PTX."""
    bodies = {m[1]: m[0] for m in re.finditer(r"\.entry (\w+)\(.*?(?=\.entry |\Z)", ptx, re.DOTALL)}
    kernels = {}
    for part in re.split(r"(?=ptxas info\s+: Compiling entry function)", log)[1:]:
        name = re.findall(r"entry function '(\w+)'", part)[0]
        kernels[name] = Resources(
            registers=_number(r"Used (\d+) registers", part),
            spilled_bytes=_number(r"(\d+) bytes spill stores", part),
            serialized_wgmma=any("C75" in line and f"'{name}'" in line for line in log.splitlines()),
            instructions={mark: bodies.get(name, "").count(mark) for mark in INSTRUCTIONS},
        )
    return kernels


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else 0


@contextlib.contextmanager
def _quiet(log: pathlib.Path) -> Generator[None]:
    """Standard error goes into a file: Mosaic complains of every kernel, for want of a disassembler nobody needs."""
    sys.stderr.flush()
    before = os.dup(2)
    with log.open("w") as sink:
        os.dup2(sink.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(before, 2)
            os.close(before)


@contextlib.contextmanager
def _environment(**variables: str) -> Generator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
