"""The nine programs: each is a coupling, and a coupling is two small tables of same-chunk arrows.

A token kind is one copy of one stream: VN and VC are the noisy and clean copies of the video, AN and AC of the actions.
Every kind reads its own kind within a chunk. The tables list what else it reads there, as (query kind, key kind).
Arrows between clean kinds vanish where a sample has a prefix. Nothing else about a program touches visibility.
"""

from dataclasses import dataclass
from enum import IntEnum

from wam_jax.sequence.objectives import FORWARD_DYNAMICS, INVERSE_DYNAMICS, Objective


class Kind(IntEnum):
    """Token kinds in the order of a sample's tokens."""

    VN = 0
    VC = 1
    AN = 2
    AC = 3

    @property
    def is_video(self) -> bool:
        """Whether the kind belongs to the video stream."""
        return self in (Kind.VN, Kind.VC)

    @property
    def is_clean(self) -> bool:
        """Whether the kind is a teacher-forced copy, never supervised."""
        return self in (Kind.VC, Kind.AC)


VN, VC, AN, AC = Kind.VN, Kind.VC, Kind.AN, Kind.AC
Arrow = tuple[Kind, Kind]


@dataclass(frozen=True)
class Coupling:
    """Same-chunk relations of the two streams.

    Attributes:
        noisy: arrows of noisy queries, (query kind, key kind).
        clean: arrows of clean queries, present only without a prefix.
        action_first: whether the action block of a chunk comes before its video block (without a prefix).
    """

    noisy: frozenset[Arrow] = frozenset()
    clean: frozenset[Arrow] = frozenset()
    action_first: bool = False


COUPLINGS: dict[str, Coupling] = {
    "video_then_action": Coupling(frozenset({(AN, VC)}), frozenset({(AC, VC)})),
    "action_then_video": Coupling(frozenset({(VN, AC)}), frozenset({(VC, AC)}), action_first=True),
    "joint": Coupling(frozenset({(VN, AN), (AN, VN)}), frozenset({(AC, VC)})),
    "decoupled_same_step": Coupling(),
    "video_noisy_to_action": Coupling(frozenset({(AN, VN)}), frozenset({(AC, VC)})),
    "action_noisy_to_video": Coupling(frozenset({(VN, AN)}), frozenset({(VC, AC)}), action_first=True),
}


@dataclass(frozen=True)
class Program:
    """A public video/action recipe.

    Attributes:
        name: what a config writes.
        coupling: key of `COUPLINGS`.
        joint_clock: whether the two streams may share a timestep.
        routed: whether the objective of a sample may be routed.
        fixed_objective: the one objective the program trains, or None.
    """

    name: str
    coupling: str
    joint_clock: bool = False
    routed: bool = False
    fixed_objective: Objective | None = None


PROGRAMS: dict[str, Program] = {
    program.name: program
    for program in (
        Program("video_then_action", "video_then_action"),
        Program("action_then_video", "action_then_video"),
        Program("joint", "joint", joint_clock=True),
        Program("decoupled_same_step", "decoupled_same_step"),
        Program("video_noisy_to_action", "video_noisy_to_action", joint_clock=True),
        Program("action_noisy_to_video", "action_noisy_to_video", joint_clock=True),
        Program("generalist_joint_denoising", "joint", joint_clock=True, routed=True),
        Program("forward_dynamics", "joint", routed=True, fixed_objective=FORWARD_DYNAMICS),
        Program("inverse_dynamics", "joint", routed=True, fixed_objective=INVERSE_DYNAMICS),
    )
}
