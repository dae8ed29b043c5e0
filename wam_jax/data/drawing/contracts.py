"""The sequence contract at work: what a recipe makes of drawn segments, and which arrays its samples show.

                      joint                                    conditional (one stream given clean)
    chunks            from the contract's origin               from frame 1; frame 0 is one of its own
    window            as drawn                                 3 blocks
    history           the policy's rule                        the one clean frame before the chunk
    prefix            the contract's                           none
    clean video copy  the condition latents where asked for    the video itself
    text              kept                                     removed

The prefix of a segment is the condition latent of the frame before it; at an episode's start, that of its first frame.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from wam_jax.config.schema import Config, PolicyConfig
from wam_jax.data.drawing.draws import DrawTable
from wam_jax.data.drawing.loss_ranges import LossRanges, loss_ranges
from wam_jax.errors import InputError
from wam_jax.sequence import Objective
from wam_jax.sequence.contracts import CONDITIONAL_LAYOUT, NO_SINGLETON, SequenceContract, sequence_contract
from wam_jax.sequence.programs import PROGRAMS

Arrays = Mapping[str, np.ndarray]
_SINGLE_FRAME = "single_frame_condition_latent"
_SHORTEST_CONDITIONAL = 2


@dataclass(frozen=True, eq=False)
class Frames:
    """Segments and their geometry; int64 arrays of one shape.

    Attributes:
        start, num_frames: where each lies in its episode.
        chunk_size, window_size, history_frames: the geometry.
        chunk_origin, singleton_frame, prefix_frames: what the contract adds; -1 for no singleton.
    """

    start: np.ndarray
    num_frames: np.ndarray
    chunk_size: np.ndarray
    window_size: np.ndarray
    history_frames: np.ndarray
    chunk_origin: np.ndarray
    singleton_frame: np.ndarray
    prefix_frames: np.ndarray


@dataclass(frozen=True)
class SequenceLaw:
    """What a recipe makes of drawn segments.

    Attributes:
        contract: of joint samples.
        ranges: the loss ranges of joint samples.
        next_after_context: whether chunks are counted from the first supervised frame.
        observes_history: whether conditional samples of demonstrations begin with the last frame of the history.
    """

    contract: SequenceContract
    ranges: LossRanges
    next_after_context: bool
    observes_history: bool

    def history(self, drawn: np.ndarray) -> np.ndarray:
        """Leading frames without video loss: those drawn, unless the recipe fixes them."""
        return drawn if self.ranges.history is None else np.full_like(drawn, self.ranges.history)

    def unseen(self, history: np.ndarray, *, conditional: np.ndarray, branch: np.ndarray) -> np.ndarray:
        """Leading frames of the segments that their samples leave out."""
        return np.where(conditional & ~branch & self.observes_history, history - 1, 0)

    def frames(
        self,
        start: np.ndarray,
        num_frames: np.ndarray,
        geometry: tuple[np.ndarray, np.ndarray, np.ndarray],
        *,
        conditional: np.ndarray,
        branch: np.ndarray,
    ) -> Frames:
        """The frames of samples.

        Args:
            start, num_frames: of the segments.
            geometry: drawn chunk, window and history.
            conditional: bool, which samples give one stream clean.
            branch: bool, which segments are of branches.
        """
        chunk, window, drawn = geometry
        history = self.history(drawn)
        unseen = self.unseen(history, conditional=conditional, branch=branch)
        origin = self.ranges.history if self.next_after_context else None
        joint = {
            "history_frames": history,
            "window_size": window,
            "chunk_origin": origin or 0,
            "singleton_frame": NO_SINGLETON,
            "prefix_frames": self.contract.prefix_frames,
        }
        columns = {name: np.where(conditional, CONDITIONAL_LAYOUT[name], value) for name, value in joint.items()}
        return Frames(start + unseen, num_frames - unseen, np.minimum(chunk, num_frames - unseen), **columns)


def sequence_law(config: Config) -> SequenceLaw:
    """The law of a run."""
    construction, contract = config.data.sample_construction, sequence_contract(config.policy.sequence_contract)
    return SequenceLaw(
        contract=contract,
        ranges=loss_ranges(construction, contract),
        next_after_context=construction.target_alignment == "next_after_context",
        observes_history=construction.conditional_start == "history",
    )


def check_draw(policy: PolicyConfig, draw: DrawTable) -> None:
    """Refuses a draw (arrays of shape []) that its program does not train, or whose frames are not its objective's.

    Raises:
        InputError: naming the property.
    """
    program, objective = PROGRAMS[policy.program], Objective(int(draw.objective))
    if objective is not (program.fixed_objective or objective) or (objective.conditional and not program.routed):
        trained = program.fixed_objective or Objective.JOINT
        raise InputError("objective", objective.label, f"policy.program {program.name} trains {trained.label!r} only")
    if not objective.conditional:
        if draw.singleton_frame != NO_SINGLETON:
            remedy = f"a joint sample has none ({NO_SINGLETON}); it belongs to conditional ones"
            raise InputError("singleton_frame", int(draw.singleton_frame), remedy)
        return
    if draw.num_frames < _SHORTEST_CONDITIONAL:
        remedy = "a conditional sample needs an observed frame and one to predict"
        raise InputError("num_frames", int(draw.num_frames), remedy)
    for name, wanted in CONDITIONAL_LAYOUT.items():
        found = int(getattr(draw, name))
        if found != wanted:
            raise InputError(name, found, f"a conditional sample ({objective.label}) has {wanted}")


def wants_condition_latents(policy: PolicyConfig) -> bool:
    """Whether joint samples may have a clean copy of their own frames that differs from their video."""
    if sequence_contract(policy.sequence_contract).prefix_frames:
        return False
    return policy.use_condition_latents or policy.context_condition_latent_source == _SINGLE_FRAME


def needs_condition_latents(policy: PolicyConfig) -> bool:
    """Whether a joint sample without condition latents cannot be used."""
    prefix = sequence_contract(policy.sequence_contract).prefix_frames > 0
    return prefix or policy.require_condition_latents or policy.context_condition_latent_source == _SINGLE_FRAME


def clean_video(policy: PolicyConfig, objective: Objective, arrays: Arrays, *, history_frames: int) -> np.ndarray:
    """What the clean copy of the sample's own frames holds: [C, F, H, W], the sample's array where nothing is replaced.

    Raises:
        InputError: the recipe needs condition latents and the sample has none.
    """
    video, condition = arrays["video_latents"], arrays.get("condition_latents")
    if objective.conditional:
        return video
    if condition is None:
        if needs_condition_latents(policy):
            raise InputError("condition_latents", None, "the policy needs them in every sample")
        return video
    if not wants_condition_latents(policy):
        return video
    if policy.context_condition_latent_source == _SINGLE_FRAME:
        return np.concatenate([condition[:, :history_frames], video[:, history_frames:]], axis=1)
    return condition


def masks_first_group(policy: PolicyConfig, objective: Objective) -> bool:
    """Whether the actions that lead into the first frame are masked whatever the data are told to do with them."""
    return objective.conditional or sequence_contract(policy.sequence_contract).context_frames > 0


def history_rule(policy: PolicyConfig, objective: Objective) -> str:
    """Which streams of earlier chunks are read."""
    return "video_only" if objective.conditional else policy.history_stream_visibility


def removes_text(objective: Objective) -> bool:
    """Whether the sample is trained without its text."""
    return objective.conditional
