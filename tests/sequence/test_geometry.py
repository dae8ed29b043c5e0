"""A geometry that means nothing is refused by name."""

from typing import Any

import pytest

from tests.sequence.geometries import random_geometries
from wam_jax.errors import InputError
from wam_jax.sequence import SequenceGeometry

GOOD: dict[str, Any] = {
    "num_frames": 3,
    "video_tokens_per_frame": 2,
    "actions_per_frame": 2,
    "chunk_size": 2,
    "window_size": 4,
    "program": "joint",
    "history": "full",
}


@pytest.mark.parametrize(
    ("field", "value", "remedy"),
    [
        ("num_frames", 0, "at least 1"),
        ("chunk_size", 0, "at least 1"),
        ("window_size", -1, "not be negative"),
        ("program", "jiont", "video_then_action"),
        ("history", "all", "video_only"),
        ("prefix_frames", 2, "0 or 1"),
        ("singleton_frame", 3, r"\[0, 3\)"),
        ("action_valid", [True], "6 action slots"),
    ],
)
def test_a_bad_field_is_named(field, value, remedy):
    with pytest.raises(InputError, match=rf"^geometry\.{field} = .*{remedy}"):
        SequenceGeometry(**(GOOD | {field: value}))


def test_token_count_counts_both_copies_and_the_prefix():
    geometry = SequenceGeometry(**GOOD, prefix_frames=1)
    assert geometry.num_tokens == 2 * (4 * 2 + 3 * 2)


def test_equal_laws_share_a_key_whatever_the_actions():
    for geometry in random_geometries(20, seed=0):
        again = SequenceGeometry(**{name: getattr(geometry, name) for name in geometry.__dataclass_fields__})
        assert again.law_key == geometry.law_key
