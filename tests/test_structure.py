"""The house rules a reader relies on: imports point one way, files and functions stay small, commands are leaves."""

import ast
import re
import statistics
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted([*(ROOT / "wam_jax").rglob("*.py"), *(ROOT / "kernels").rglob("*.py")])
TESTS = sorted((ROOT / "tests").rglob("*.py"))
COMMANDS = {
    "wam_jax.verify",
    "wam_jax.train",
    "wam_jax.benchmark",
    "wam_jax.plan",
    "wam_jax.data.record",
    "wam_jax.data.inspect",
    "wam_jax.data.convert",
}

# What a room may import of the others; a room always sees itself and the errors.
ALLOWED = {
    "wam_jax.config": {"wam_jax.sequence"},
    "wam_jax.sequence": {"wam_kernels"},
    "wam_jax.data": {"wam_jax.config", "wam_jax.sequence", "wam_jax.keys", "wam_jax.cli", "wam_jax.assets"},
    "wam_jax.model": {"wam_jax.config", "wam_jax.sequence", "wam_jax.tracing", "wam_kernels"},
    "wam_jax.flow": {"wam_jax.sequence", "wam_jax.data", "wam_jax.keys", "wam_kernels"},
    "wam_jax.decode": {"wam_jax.sequence", "wam_jax.data", "wam_jax.flow", "wam_jax.tracing"},
    "wam_jax.policies": {
        "wam_jax.config",
        "wam_jax.data",
        "wam_jax.decode",
        "wam_jax.flow",
        "wam_jax.model",
        "wam_jax.sequence",
        "wam_jax.tracing",
        "wam_kernels",
    },
    "wam_jax.tracing": {"wam_jax.data"},
    "wam_kernels": set(),
}


# The same inside of wam_jax.data, where the encoders of text are an interface that stores are written with.
ALLOWED_IN_DATA = {
    "storage": {"encoders.text"},
    "encoders": {"storage"},
    "drawing": {"storage"},
    "construction": {"storage", "encoders", "drawing"},
    "batching": {"storage", "drawing", "construction", "transport"},
    "inspection": {"storage", "encoders", "construction"},
    "conversion": {"storage", "encoders", "construction"},
    "recording": {"storage", "encoders", "construction"},
}


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[1:] if parts[0] == "kernels" else parts).removesuffix(".__init__")


def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.startswith(("wam_jax", "wam_kernels"))}


def _room(name: str) -> str:
    parts = name.split(".")
    return parts[0] if parts[0] == "wam_kernels" else ".".join(parts[:2])


@pytest.mark.parametrize("room", ALLOWED)
def test_imports_point_one_way(room):
    allowed = ALLOWED[room] | {room, "wam_jax.errors"}
    wrong = [
        f"{_module(path)} imports {name}"
        for path in SOURCES
        if _room(_module(path)) == room
        for name in _imports(path)
        if _room(name) not in allowed
    ]
    assert not wrong


@pytest.mark.parametrize("room", ALLOWED_IN_DATA)
def test_imports_point_one_way_in_data(room):
    data = "wam_jax.data."
    allowed = tuple(f"{data}{name}." for name in ALLOWED_IN_DATA[room] | {room, "files", "jsonio"})
    wrong = [
        f"{_module(path)} imports {name}"
        for path in SOURCES
        if _module(path).startswith(f"{data}{room}.")
        for name in _imports(path)
        if name.startswith(data) and not f"{name}.".startswith(allowed)
    ]
    assert not wrong


def test_nothing_imports_a_command():
    wrong = [
        f"{_module(path)} imports {name}"
        for path in SOURCES
        for name in _imports(path)
        if any(name == command or name.startswith(f"{command}.") for command in COMMANDS)
    ]
    assert not wrong


def test_commands_say_what_is_wrong_with_their_arguments_in_one_line():
    made = re.compile(r"argparse\.ArgumentParser\(|\(argparse\.ArgumentParser")
    own = {_module(path) for path in SOURCES if "kernels" not in path.parts and made.search(path.read_text())}
    assert own == {"wam_jax.cli"}


def _functions(path: Path) -> list[tuple[int, str]]:
    nodes = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [((node.end_lineno or 0) - node.lineno + 1, f"{_module(path)}.{node.name}") for node in nodes]


def test_files_and_functions_stay_small():
    lengths = [len(path.read_text().splitlines()) for path in SOURCES]
    assert statistics.median(lengths) < 150
    too_long = [str(p) for p, n in zip(SOURCES, lengths, strict=True) if n > 500 and "wam_kernels" not in str(p)]
    assert not too_long
    functions = [item for path in SOURCES if "wam_kernels" not in str(path) for item in _functions(path)]
    assert statistics.median(length for length, _ in functions) <= 14
    assert not [name for length, name in functions if length > 60 and not name.endswith(".main")]


def test_every_module_says_what_it_guarantees():
    assert not [
        str(path) for path in SOURCES if path.stat().st_size and not ast.get_docstring(ast.parse(path.read_text()))
    ]


def _top_level_names(path: Path) -> set[str]:
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.TypeAlias):
            names.add(node.name if not isinstance(node, ast.TypeAlias) else node.name.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            names |= {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return names


def _is_there(name: str, modules: dict[str, Path]) -> bool:
    """Whether a dotted name is a module, a room, or what a module has at its top level (no deeper)."""
    room, _, own = name.rpartition(".")
    if name in modules or (ROOT / name.replace(".", "/")).is_dir():
        return True
    return bool(room) and (own in _top_level_names(modules[room]) if room in modules else _is_there(room, modules))


def test_names_in_texts_are_there():
    modules = {_module(path): path for path in SOURCES}
    dotted, other = re.compile(r"\b(?:wam_jax|wam_kernels)(?:\.\w+)+"), re.compile(r"\.(v\d+|__\w+__)$")
    texts = [*SOURCES, *TESTS, ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in texts
        for name in dotted.findall(path.read_text())
        if not other.search(name) and not _is_there(name, modules)
    ]
    assert not wrong


def test_there_is_enough_test_code():
    count = lambda paths: sum(len(path.read_text().splitlines()) for path in paths)  # noqa: E731
    assert count(TESTS) >= 0.6 * count(SOURCES)


def test_every_test_can_fail():
    empty = []
    for path in TESTS:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                text = ast.unparse(node)
                if not any(word in text for word in ("assert", "raises", "check", "close(")):
                    empty.append(f"{path.name}::{node.name}")
    assert not empty
