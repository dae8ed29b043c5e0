"""The text of a compiled program, as far as a plan reads it: which instructions it has and how often each is run.

XLA prints one computation after another, the one that is run first marked ENTRY:

    %body (p: (s32[], f32[8])) -> (s32[], f32[8]) {
      %all-gather.1 = f32[8]{0} all-gather(%slice), replica_groups=mesh['data'=1,'fsdp'=2] {'fsdp'}, dimensions={0}
    }
    ENTRY %main (a: f32[8]) -> f32[8] {
      %while.1 = (s32[], f32[8]{0}) while(%tuple), condition=%cond, body=%body,
                 backend_config={"known_trip_count":{"n":"30"}}
    }

A loop is run as often as its `known_trip_count` says; one without (its length is data) counts once.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?([\w.-]+) = (.*?) ([a-z][a-z0-9-]*)\((.*)$")
_CALLED = re.compile(r"(?:condition|body|calls|to_apply|\w+_computations)=\{?([^,}]+(?:, %[^,}]+)*)")
_ARRAY = re.compile(r"\b([a-z]+)(\d+)?[a-z0-9]*\[([\d,]*)\]")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')


@dataclass(frozen=True)
class Instruction:
    """One line.

    Attributes:
        name: unique in the program.
        shape: of the result, as printed.
        opcode: what it does.
        rest: operands and attributes, as printed.
    """

    name: str
    shape: str
    opcode: str
    rest: str

    @property
    def result_bytes(self) -> int:
        """Of all arrays of the result."""
        return sum(_array_bytes(*found) for found in _ARRAY.findall(self.shape))


def instructions(text: str) -> Iterator[tuple[Instruction, int]]:
    """Every instruction of a program, with how often it is run."""
    bodies, entry = _computations(text)
    times = Counter({entry: 1})
    for name in reversed(_callees_first(bodies, entry)):
        for instruction in bodies[name]:
            yield instruction, times[name]
            trips = _TRIPS.search(instruction.rest) if instruction.opcode == "while" else None
            for called in _called(instruction, bodies):
                times[called] += times[name] * (int(trips[1]) if trips else 1)


def _computations(text: str) -> tuple[dict[str, list[Instruction]], str]:
    bodies: dict[str, list[Instruction]] = {}
    current, entry = "", ""
    for line in text.splitlines():
        if opened := _COMPUTATION.match(line):
            current = opened[2]
            bodies[current] = []
            entry = current if opened[1] else entry
        elif current and (found := _INSTRUCTION.match(line)):
            bodies[current].append(Instruction(*found.groups()))
    return bodies, entry


def _called(instruction: Instruction, bodies: dict[str, list[Instruction]]) -> list[str]:
    names = [name.strip().removeprefix("%") for group in _CALLED.findall(instruction.rest) for name in group.split(",")]
    return [name for name in names if name in bodies]


def _callees_first(bodies: dict[str, list[Instruction]], entry: str) -> list[str]:
    """The computations that are reached, each behind all that it calls."""
    order: dict[str, None] = {}

    def visit(name: str) -> None:
        for instruction in bodies[name]:
            for called in _called(instruction, bodies):
                if called not in order:
                    visit(called)
        order[name] = None

    visit(entry)
    return list(order)


def _array_bytes(kind: str, bits: str, sizes: str) -> int:
    """`f32[8,2]`, `bf16[4]`, `pred[3]`, `f8e4m3fn[2]`, `token[]`: whole bytes, none for what is no number."""
    width = 8 if kind == "pred" else int(bits or 0)
    return math.prod(int(size) for size in sizes.split(",") if size) * width // 8
