"""What a user did that cannot work, said in one line before anything expensive starts.

Everything that is wrong with a configuration, a store, a sample or a command line is an `InputError`; what else raises
is a defect of ours, or the world's (`wam_jax.cli.RunError`). Commands turn an `InputError` into one line on standard
error and exit code 2 (`wam_jax.cli`).
"""

from typing import Any

_LONGEST_VALUE = 120


class InputError(ValueError):
    """A value that was given and cannot be used.

    Attributes:
        field: the dotted name of what is wrong (`data.batching.mode`, `sample ep-3: actions`).
        value: what was found there.
        remedy: what would be accepted, or what to do.
    """

    def __init__(self, field: str, value: Any, remedy: str) -> None:
        self.field, self.value, self.remedy = field, value, remedy
        shown = (
            repr(value)
            if not isinstance(value, str) or len(value) < _LONGEST_VALUE
            else repr(value[:_LONGEST_VALUE] + "…")
        )
        if len(shown) > _LONGEST_VALUE + 3:
            shown = shown[:_LONGEST_VALUE] + "…"
        super().__init__(" ".join(f"{field} = {shown}: {remedy}".split()))

    def __reduce__(self) -> tuple[type, tuple[str, Any, str]]:
        """Rebuilt from its three parts, so that it crosses the boundary of a loader's worker process."""
        return type(self), (self.field, self.value, self.remedy)
