"""The oracle's visibility law against statements worked out by hand."""

from typing import Any

import numpy as np
import pytest

from tests.restatement.generators import random_geometry
from tests.restatement.visibility import (
    AC,
    ACTION,
    AN,
    COUPLING,
    PROGRAMS,
    VC,
    VIDEO,
    VN,
    Geometry,
    base_chunk,
    text_visible,
    token_table,
    visible,
)

# Own chunk of (VN, VC, AN, AC), without a prefix.
SAME_CHUNK = {
    "video_then_action": ({VN}, {VC}, {AN, VC}, {AC, VC}),
    "action_then_video": ({VN, AC}, {VC, AC}, {AN}, {AC}),
    "joint": ({VN, AN}, {VC}, {AN, VN}, {AC, VC}),
    "decoupled_same_step": ({VN}, {VC}, {AN}, {AC}),
    "video_noisy_to_action": ({VN}, {VC}, {AN, VN}, {AC, VC}),
    "action_noisy_to_video": ({VN, AN}, {VC, AC}, {AN}, {AC}),
    "generalist_joint_denoising": ({VN, AN}, {VC}, {AN, VN}, {AC, VC}),
    "forward_dynamics": ({VN, AN}, {VC}, {AN, VN}, {AC, VC}),
    "inverse_dynamics": ({VN, AN}, {VC}, {AN, VN}, {AC, VC}),
}
# Programs where a masked action token may see nothing even without a prefix.
LONELY = {"action_then_video", "action_noisy_to_video", "decoupled_same_step"}


def geometry(program: str = "joint", **changes: Any) -> Geometry:
    base = {"num_frames": 4, "video_tokens_per_frame": 1, "actions_per_frame": 1, "chunk_size": 2, "window_size": 8}
    fields: dict[str, Any] = base | changes
    return Geometry(program=program, **fields)


def conditional(**changes: Any) -> Geometry:
    fixed = {"window_size": 3, "history": "video_only", "chunk_origin": 1, "singleton_frame": 0, "boundary_only": True}
    fields: dict[str, Any] = fixed | changes
    return geometry("joint", **fields)


def reads(g: Geometry, kind: int, frame: int) -> set[tuple[int, int]]:
    """(kind, frame) of all keys that the first token of a frame reads."""
    table = token_table(g)
    row = np.flatnonzero((table["kind"] == kind) & (table["frame"] == frame))[0]
    keys = table[visible(g)[row]]
    return set(zip(keys["kind"].tolist(), keys["frame"].tolist(), strict=True))


def spread(kinds: set[int], *frames: int) -> set[tuple[int, int]]:
    return {(kind, frame) for kind in kinds for frame in frames}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("kind", [VN, VC, AN, AC])
def test_truth_table(program: str, kind: int) -> None:
    expected = spread(SAME_CHUNK[program][kind], 2, 3) | spread({VC, AC}, 0, 1)
    assert reads(geometry(program), kind, 2) == reads(geometry(program), kind, 3) == expected


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("kind", [VN, VC, AN, AC])
def test_prefix_drops_the_clean_arrows_and_is_history_of_all_targets(program: str, kind: int) -> None:
    g = geometry(program, num_frames=2, prefix_frames=1)
    own = SAME_CHUNK[program][kind] if kind in (VN, AN) else {kind}
    video = {(k, f) for k, f in spread(own & {VN, VC}, 1, 2)}
    assert reads(g, kind, 1) == video | spread(own & {AN, AC}, 0, 1) | {(VC, 0)}


def test_whole_matrix_of_two_chunks() -> None:
    drawing = [  # columns are VN0 VN1 VC0 VC1 AN0 AN1 AC0 AC1, as are the rows
        "#...#...",
        ".##..##.",
        "..#.....",
        "..##..#.",
        "#...#...",
        ".##..##.",
        "..#...#.",
        "..##..##",
    ]
    seen = visible(geometry("joint", num_frames=2, chunk_size=1))
    assert ["".join(".#"[int(x)] for x in row) for row in seen] == drawing


@pytest.mark.parametrize(
    ("history", "video_reads", "action_reads"),
    [
        ("full", {VC, AC}, {VC, AC}),
        ("video_queries_video_only", {VC}, {VC, AC}),
        ("video_only", {VC}, {VC}),
    ],
)
def test_history_filters(history: str, video_reads: set[int], action_reads: set[int]) -> None:
    g = geometry("decoupled_same_step", history=history)
    assert {k for k, f in reads(g, VN, 2) if f < 2} == {k for k, f in reads(g, VC, 2) if f < 2} == video_reads
    assert {k for k, f in reads(g, AN, 2) if f < 2} == {k for k, f in reads(g, AC, 2) if f < 2} == action_reads


@pytest.mark.parametrize("program", ["decoupled_same_step", "action_then_video"])
@pytest.mark.parametrize(("query", "key"), [(VN, VC), (AN, AC), (AN, VC), (VN, AC)])
def test_window_is_counted_in_blocks(program: str, query: int, key: int) -> None:
    later, earlier = (AN, VC) if program == "decoupled_same_step" else (VN, AC)
    distance = 3 if (query, key) == (later, earlier) else 4
    seen = reads(geometry(program, num_frames=12, chunk_size=1), query, 11)
    assert min(frame for kind, frame in seen if kind == key and frame < 11) == 11 - distance


def test_window_zero_cuts_the_other_stream_of_the_own_chunk() -> None:
    assert reads(geometry("joint", window_size=0), VN, 2) == spread({VN}, 2, 3)


@pytest.mark.parametrize("kind", [VN, VC, AN, AC])
@pytest.mark.parametrize(("own", "boundary"), [([0], []), ([1, 2], [0]), ([3, 4], [2])])
def test_conditional_history_is_the_boundary_frame(kind: int, own: list[int], boundary: list[int]) -> None:
    for frame in own:
        expected = spread(SAME_CHUNK["joint"][kind], *own) | spread({VC}, *boundary)
        assert reads(conditional(num_frames=5), kind, frame) == expected


def test_conditional_window_admits_exactly_the_previous_chunk() -> None:
    assert (VC, 2) in reads(conditional(num_frames=5), AN, 3)
    assert (VC, 2) not in reads(conditional(num_frames=5, window_size=2), AN, 3)
    assert (VC, 2) in reads(conditional(num_frames=5, window_size=2), VN, 3)
    assert (VC, 0) not in reads(conditional(num_frames=5, boundary_only=False), VN, 3)


def test_chunks_around_origin_and_singleton() -> None:
    assert [base_chunk(conditional(), f) for f in range(5)] == [-1, 0, 0, 1, 1]
    assert [base_chunk(geometry(chunk_size=4, singleton_frame=2), f) for f in range(5)] == [-1, -1, 0, 0, 1]
    assert [base_chunk(geometry(chunk_size=3, chunk_origin=1), f) for f in range(5)] == [-1, 0, 0, 0, 1]


def test_nothing_from_the_singleton_on_reads_what_lies_before() -> None:
    g = geometry(chunk_size=4, singleton_frame=2)
    assert reads(g, VN, 2) == reads(g, AN, 3) == spread({VN, AN}, 2, 3)
    assert reads(g, AC, 1) == spread({VC, AC}, 0, 1)


def test_singleton_zero_hides_the_prefix() -> None:
    g = geometry(num_frames=2, prefix_frames=1, singleton_frame=0)
    table, seen = token_table(g), visible(g)
    is_prefix = (table["stream"] == VIDEO) & (table["frame"] == 0)
    assert not seen[np.ix_(~is_prefix, is_prefix)].any()
    assert seen[np.ix_(is_prefix, is_prefix)].tolist() == [[True, False], [False, True]]
    assert table["effective_frame"][:3].tolist() == [-1, 0, 1]


def test_late_origin_puts_target_frames_into_the_chunk_of_the_prefix() -> None:
    g = geometry(prefix_frames=1, chunk_origin=1)
    assert {(VN, 0), (VN, 1)} <= reads(g, AN, 0)
    assert (VC, 0) not in reads(g, VN, 1)
    assert (VC, 0) in reads(g, VN, 2)


def test_prefix_switches_the_parity_swap_off() -> None:
    swapped, normal = (token_table(geometry("action_noisy_to_video", prefix_frames=p))["block"] for p in (0, 1))
    assert (swapped[0], swapped[-4]) == (1, 0)
    assert (normal[0], normal[1], normal[-4]) == (0, 2, 3)


def test_boundary_policy_does_not_shift_video_frames_without_a_singleton() -> None:
    g = conditional(prefix_frames=1, singleton_frame=None, chunk_origin=0, num_frames=6, window_size=64)
    assert {f for k, f in reads(g, VN, 3) if k == VC} == {1}
    assert {f for k, f in reads(g, AN, 4) if k == VC} == {3}


@pytest.mark.parametrize("program", PROGRAMS)
def test_masked_actions_see_nothing_where_no_video_is_read(program: str) -> None:
    g = geometry(program, action_valid=np.zeros(4, bool))
    assert (reads(g, AN, 0) == set()) == (reads(g, AC, 0) == set()) == (program in LONELY)


def test_properties_of_random_geometries() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        g = Geometry(**random_geometry(rng))
        table, seen = token_table(g), visible(g)
        q, k = table[:, None], table[None, :]
        assert not (seen & (q["noise"] == 1) & (k["noise"] == 0)).any()
        assert not (seen & (k["chunk"] > q["chunk"])).any()
        assert not (seen & (k["kind"] == q["kind"] + 1) & (q["noise"] == 0) & (k["chunk"] == q["chunk"])).any()
        assert seen.diagonal().tolist() == table["valid_as_kv"].tolist()


def test_empty_rows_are_masked_actions_of_the_named_kinds() -> None:
    rng, found = np.random.default_rng(1), set()
    for _ in range(600):
        g = Geometry(**random_geometry(rng))
        if g.window_size > 0:
            empty = token_table(g)[~visible(g).any(-1)]
            assert not empty["valid_as_kv"].any()
            found |= {(g.coupling, g.prefix_frames, int(kind)) for kind in empty["kind"]}
    expected = {(c, p, kind) for c in LONELY for p in (0, 1) for kind in (AN, AC)}
    assert found == expected | {(c, 1, AC) for c in set(COUPLING.values()) - LONELY}


def test_text_is_read_by_all_and_each_chunk_reads_its_own_state() -> None:
    g = geometry(num_frames=3)
    rows = text_visible(g, VIDEO, num_text=1, num_proprio=2, mode_token=True).astype(int).tolist()
    assert rows == [[1, 1, 0, 1], [1, 1, 0, 1], [1, 0, 1, 1]] * 2
    assert text_visible(g, ACTION, num_text=2, num_proprio=1, mode_token=False).all()


def test_text_ignores_the_shift_of_the_prefix() -> None:
    rows = text_visible(geometry(num_frames=3, prefix_frames=1), VIDEO, num_text=0, num_proprio=2, mode_token=False)
    assert rows.astype(int).tolist() == [[1, 0], [1, 0], [0, 1], [0, 1]] * 2
