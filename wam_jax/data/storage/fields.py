"""The field table: every tensor a trajectory can carry, with the meaning of each axis.

One table serves the store's index, the validation of samples, the cropping of segments and the padding of transport
arrays, so that a field added here is known everywhere. Axes are those of one sample without a batch axis. Exactly one
axis of a field grows with the trajectory; its name is the unit that the axis counts:

    frame         latent video frames, F of them
    slot          action slots, A per frame (frame-major): F * A
    observation   raw observation frames, 1 + stride * (F - 1)
    chunk         chunks of the sample
    token         text tokens

A field that is absent is not the same as one that is empty: extents are `None` and 0.
"""

from dataclasses import dataclass

GROWING_AXES = ("frame", "slot", "observation", "chunk", "token")


@dataclass(frozen=True)
class Field:
    """One tensor of a sample.

    Attributes:
        name: the key in records, samples and transport arrays.
        axes: names of the axes, in order.
        optional: whether a sample may lack it.
        mask_of: the field whose entries this one marks as present (1) or not (0), or None.
    """

    name: str
    axes: tuple[str, ...]
    optional: bool = True
    mask_of: str | None = None

    @property
    def time_axis(self) -> int:
        """Position of the axis that grows with the trajectory."""
        return next(i for i, axis in enumerate(self.axes) if axis in GROWING_AXES)

    @property
    def unit(self) -> str:
        """What the growing axis counts, one of `GROWING_AXES`."""
        return self.axes[self.time_axis]


_VIDEO = ("channel", "frame", "height", "width")

FIELDS: tuple[Field, ...] = (
    Field("video_latents", _VIDEO, optional=False),
    Field("condition_latents", _VIDEO),
    Field("actions", ("slot", "action_dim"), optional=False),
    Field("action_mask", ("slot", "action_dim"), mask_of="actions"),
    Field("state", ("observation", "state_dim")),
    Field("state_mask", ("observation", "state_dim"), mask_of="state"),
    Field("proprio_context_frames", ("frame", "state_dim")),
    Field("proprio_context_frames_mask", ("frame", "state_dim"), mask_of="proprio_context_frames"),
    Field("proprio_context_state", ("chunk", "state_dim")),
    Field("proprio_context_state_mask", ("chunk", "state_dim"), mask_of="proprio_context_state"),
    Field("text_context", ("token", "text_dim")),
    Field("negative_text_context", ("token", "text_dim")),
)

BY_NAME: dict[str, Field] = {field.name: field for field in FIELDS}
