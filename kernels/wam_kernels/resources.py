"""What compiled kernels cost on a GPU: registers, spilled bytes, shared memory and the instructions that count.

`kernel_resources` compiles a function for compile-only devices (`wam_kernels.deviceless`) and reads the compiler's own
reports: XLA's PTX dump through `ptxas -v` and its thunk listing for Triton kernels, Mosaic's dump for its own.
"""

import contextlib
import dataclasses
import importlib.util
import os
import pathlib
import re
import subprocess
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
    with tempfile.TemporaryDirectory() as folder, _environment(MOSAIC_GPU_DUMP_TO=folder):
        options = {"xla_dump_to": folder, "xla_dump_emitter_re": "ptx"}
        jax.jit(function).lower(*args).compile(compiler_options=options)
        return _read(pathlib.Path(folder))


def _read(folder: pathlib.Path) -> dict[str, Resources]:
    kernels: dict[str, Resources] = {}
    for path in sorted(folder.glob("module_*.ptx")):
        kernels |= _from_log(_assemble(path), path.read_text())
    for path in sorted(folder.glob("*.ptxas")):
        (kernel,) = _from_log(path.read_text(), path.with_suffix(".ptx").read_text()).values()
        used = re.search(r"smem_scratch_bytes=(\d+)", path.with_suffix(".resources.txt").read_text())
        kernel.shared_memory = int(used[1]) if used else 0
        kernels[path.stem] = kernel
    for path in folder.glob("*thunk_sequence.txt"):
        for name, used in re.findall(r"(\w+) grid: \[.*?shared_memory: (\d+) bytes", path.read_text()):
            if name in kernels:
                kernels[name].shared_memory = int(used)
    return kernels


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
def _environment(**variables: str) -> Generator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
