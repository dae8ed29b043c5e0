"""What a compiled program sends between devices: by kind, by the mesh axes that it goes over, in bytes.

`sent` is what each device sends with the ring algorithm, whatever the network does: of n devices that exchange,
(n - 1) / n of a gathered result, n - 1 times a scattered one, 2 (n - 1) / n of a reduced one.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from wam_jax.planning.hlo import Instruction, instructions

_SENT = {
    "all-gather": lambda n: (n - 1) / n,
    "reduce-scatter": lambda n: n - 1,
    "all-reduce": lambda n: 2 * (n - 1) / n,
    "all-to-all": lambda n: (n - 1) / n,
    "ragged-all-to-all": lambda n: (n - 1) / n,
    "collective-permute": lambda _: 1,
    "collective-broadcast": lambda _: 1,
}
_GROUPS = re.compile(r"replica_groups=mesh\[.*?\] \{(.*?)\}")


@dataclass(frozen=True)
class Collective:
    """All exchanges of one kind over the same axes.

    Attributes:
        kind: XLA's name.
        axes: names of the mesh axes, joined by "+"; "?" where the program does not say.
        calls: how many are run, in the mean; XLA combines many arrays in one.
        sent: bytes that each device sends.
    """

    kind: str
    axes: str
    calls: float
    sent: float

    def __mul__(self, times: float) -> "Collective":
        """Run so many times."""
        return Collective(self.kind, self.axes, self.calls * times, self.sent * times)


def collectives(text: str, mesh: Mapping[str, int]) -> list[Collective]:
    """The exchanges of a program.

    Args:
        text: of the compiled program.
        mesh: axis name to devices on it.
    """
    found = [*instructions(text)]
    by_name = {instruction.name: instruction for instruction, _ in found}
    parts = []
    for instruction, times in found:
        kind = instruction.opcode.removesuffix("-done")
        if kind in _SENT and times:
            begun = _begun(instruction, by_name)
            axes = _axes(begun, mesh)
            devices = _devices(axes, mesh)
            if devices > 1:
                parts.append(Collective(kind, "+".join(axes) or "?", 1, _bytes(kind, instruction, devices)) * times)
    return merged(parts)


def merged(parts: Iterable[Collective]) -> list[Collective]:
    """One of each kind and axes, most bytes first."""
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0, 0])
    for part in parts:
        calls_and_sent = sums[part.kind, part.axes]
        calls_and_sent[0] += part.calls
        calls_and_sent[1] += part.sent
    all_of_them = [Collective(*key, *value) for key, value in sums.items()]
    return sorted(all_of_them, key=lambda one: -one.sent)


def _bytes(kind: str, instruction: Instruction, devices: int) -> int:
    return round(_SENT[kind](devices) * instruction.result_bytes)


def _begun(instruction: Instruction, by_name: Mapping[str, Instruction]) -> Instruction:
    """Where an exchange was begun: there its groups are."""
    if not instruction.opcode.endswith("-done"):
        return instruction
    operand = re.match(r"%?([\w.-]+)", instruction.rest)
    return by_name[operand[1]] if operand else instruction


def _axes(instruction: Instruction, mesh: Mapping[str, int]) -> list[str]:
    found = _GROUPS.search(instruction.rest)
    return [axis for axis in mesh if f"'{axis}'" in found[1]] if found else []


def _devices(axes: Iterable[str], mesh: Mapping[str, int]) -> int:
    """That exchange with one another; all of the mesh where nothing says which."""
    devices = 1
    for axis in [*axes] or mesh:
        devices *= mesh[axis]
    return devices
