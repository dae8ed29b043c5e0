"""What a sample is trained to predict: both streams, the video given the actions, or the actions given the video."""

from enum import IntEnum


class Objective(IntEnum):
    """The objective of one sample. The numbers index the learned mode-token table; never renumber."""

    JOINT = 0
    ACTION_CONDITIONED_VIDEO = 1
    VIDEO_CONDITIONED_ACTION = 2

    @property
    def conditional(self) -> bool:
        """Whether one stream is given clean: forward dynamics (FDM) or inverse dynamics (IDM)."""
        return self is not Objective.JOINT

    @property
    def label(self) -> str:
        """The name in configurations and metrics."""
        return self.name.lower()


FORWARD_DYNAMICS = Objective.ACTION_CONDITIONED_VIDEO
INVERSE_DYNAMICS = Objective.VIDEO_CONDITIONED_ACTION

CONDITIONAL_WINDOW = 3
"""Window of conditional samples in blocks: it just admits the action stream's look at the previous chunk's video."""
