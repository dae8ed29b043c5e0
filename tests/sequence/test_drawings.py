"""The drawings of docs/programs.md are the law, and the law of each program is what is drawn there."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wam_jax.sequence import SequenceGeometry, dense_visibility
from wam_jax.sequence.contracts import CONDITIONAL_LAYOUT
from wam_jax.sequence.drawing import draw_visibility
from wam_jax.sequence.programs import PROGRAMS

DOCUMENT = Path(__file__).parents[2] / "docs" / "programs.md"


def three_frames(program: str, **fields) -> SequenceGeometry:
    """Chunks of one frame, a window that covers everything, one token a frame."""
    tokens: dict[str, Any] = {"num_frames": 3, "video_tokens_per_frame": 1, "actions_per_frame": 1}
    rules: dict[str, Any] = {"chunk_size": 1, "window_size": 64, "history": "full"}
    return SequenceGeometry(program=program, **tokens, **rules | fields)


CONDITIONAL: dict[str, Any] = {
    "window_size": CONDITIONAL_LAYOUT["window_size"],
    "chunk_origin": CONDITIONAL_LAYOUT["chunk_origin"],
    "singleton_frame": CONDITIONAL_LAYOUT["singleton_frame"],
    "boundary_only": True,
    "history": "video_only",
}
FIXED = [name for name, program in PROGRAMS.items() if program.fixed_objective is not None]
DRAWN = {
    **{name: three_frames(name, **(CONDITIONAL if name in FIXED else {})) for name in PROGRAMS},
    "joint with a prefix": three_frames("joint", prefix_frames=1),
    "joint in chunks of two behind a context frame": three_frames("joint", chunk_size=2, chunk_origin=1),
}


def drawings() -> dict[str, str]:
    """Name to text of every drawing in the document."""
    found = re.findall(r"<!-- drawing: (.*?) -->\n```text\n(.*?)\n```", DOCUMENT.read_text(), re.DOTALL)
    return dict(found)


@pytest.mark.parametrize("name", DRAWN)
def test_a_drawing_in_the_document_is_the_law(name):
    assert drawings()[name] == draw_visibility(DRAWN[name])


def test_the_document_draws_nothing_else():
    assert drawings().keys() == DRAWN.keys()


@pytest.mark.parametrize("name", DRAWN)
def test_a_drawing_says_what_each_token_reads(name):
    geometry = DRAWN[name]
    lines = draw_visibility(geometry).splitlines()[1:]
    drawn = np.array([[mark == "x" for mark in "".join(line.split()[1:])] for line in lines])
    np.testing.assert_array_equal(drawn, dense_visibility(geometry))


def test_a_prefix_frame_is_named():
    names = [line.split()[0] for line in draw_visibility(DRAWN["joint with a prefix"]).splitlines()[1:]]
    assert names[:5] == ["VNp", "VN0", "VN1", "VN2", "VCp"]
    assert names[-3:] == ["AC0", "AC1", "AC2"]
