"""The visibility law: which tokens of a sample read which.

    visible(q, k) = |block(q) - block(k)| <= window
                    and nothing at or after the singleton frame reads anything before it
                    and ( same chunk, by the coupling's arrows
                          or clean key of an earlier chunk, by the history rule )

All tokens of a frame's copy are alike, so the law speaks of *spans*: stretches of consecutive frames of one kind that
agree on everything it looks at. `frame_spans` gives one span a frame, `run_spans` the longest stretches; the law
itself, `visible_spans`, exists once. Which action slots hold an action varies within a frame and is no part of it: an
invalid action token is never a key (`key_valid`), and still a query.

A drawing, joint program, 3 frames, chunks of 1, window 8, one token a frame (rows read columns):

           VN    VC    AN    AC
    VN0    x..   ...   x..   ...
    VN1    .x.   x..   .x.   x..
    VN2    ..x   xx.   ..x   xx.
    VC0    ...   x..   ...   ...
    VC1    ...   xx.   ...   x..
    VC2    ...   xxx   ...   xx.
    AN0    x..   ...   x..   ...
    AN1    .x.   x..   .x.   x..
    AN2    ..x   xx.   ..x   xx.
    AC0    ...   x..   ...   x..
    AC1    ...   xx.   ...   xx.
    AC2    ...   xxx   ...   xxx
"""

from dataclasses import dataclass

import numpy as np

from wam_jax.sequence.geometry import SequenceGeometry
from wam_jax.sequence.programs import Arrow, Kind


@dataclass(frozen=True)
class Spans:
    """Stretches of frames of one kind each, in token order; every array is int64[spans].

    Attributes:
        kind: the `Kind`.
        start: first frame of the stretch in its copy (of a video copy: prefix counted).
        stop: one past its last frame.
        chunk: chunk number.
        block: block number, the unit of the window.
        frame: frame number that cutoff and boundary compare, of the first frame.
    """

    kind: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    chunk: np.ndarray
    block: np.ndarray
    frame: np.ndarray


def base_chunk(geometry: SequenceGeometry, frames: np.ndarray) -> np.ndarray:
    """Chunks of dataset frames; a singleton pushes the frames before it out of its chunk."""
    origin, size, singleton = geometry.chunk_origin, geometry.chunk_size, geometry.singleton_frame
    chunk = (frames - origin) // size
    if singleton is None:
        return chunk
    shares = (frames < singleton) & (chunk == (singleton - origin) // size)
    return chunk - shares


def _video_chunk(geometry: SequenceGeometry, frames: np.ndarray) -> np.ndarray:
    prefix, singleton = geometry.prefix_frames, geometry.singleton_frame
    if not prefix:
        return base_chunk(geometry, frames)
    before = 0 if singleton is None else base_chunk(geometry, np.array(max(0, singleton - 1))) + 1
    return np.where(frames < prefix, before, base_chunk(geometry, frames - prefix) + 1)


def _effective_frame(geometry: SequenceGeometry, frames: np.ndarray) -> np.ndarray:
    """Frame numbers of video frames as cutoff and boundary see them: shifted only where singleton and prefix meet."""
    prefix, singleton = geometry.prefix_frames, geometry.singleton_frame
    if not prefix or singleton is None:
        return frames
    return np.where(frames < prefix, singleton - 1, frames - prefix)


def frame_spans(geometry: SequenceGeometry) -> Spans:
    """One span a frame and copy, in token order."""
    parts = []
    for kind in Kind:
        frames = np.arange(geometry.frames_of(kind))
        prefix_shift = int(geometry.prefix_frames > 0)
        chunk = _video_chunk(geometry, frames) if kind.is_video else base_chunk(geometry, frames) + prefix_shift
        swapped = geometry.coupling.action_first and not geometry.prefix_frames
        block = 2 * chunk + (kind.is_video == swapped)
        effective = _effective_frame(geometry, frames) if kind.is_video else frames
        parts.append((np.full_like(frames, kind), frames, frames + 1, chunk, block, effective))
    return Spans(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def run_spans(geometry: SequenceGeometry) -> Spans:
    """The longest stretches of frames that the law cannot tell apart, in token order."""
    spans = frame_spans(geometry)
    marks = [spans.kind, spans.chunk]
    if geometry.singleton_frame is not None:
        marks.append(spans.frame >= geometry.singleton_frame)
    if geometry.boundary_only:
        marks += [_boundary(geometry, spans.frame), _boundary(geometry, spans.frame + 1) == spans.frame]
    table = np.stack(marks)
    first = np.concatenate([[0], np.flatnonzero((table[:, 1:] != table[:, :-1]).any(0)) + 1])
    last = np.concatenate([first[1:], [table.shape[1]]]) - 1
    return Spans(
        spans.kind[first],
        spans.start[first],
        spans.stop[last],
        spans.chunk[first],
        spans.block[first],
        spans.frame[first],
    )


def _boundary(geometry: SequenceGeometry, frames: np.ndarray) -> np.ndarray:
    """The last frame before the chunk of each frame."""
    origin, size = geometry.chunk_origin, geometry.chunk_size
    return origin + (frames - origin) // size * size - 1


def _arrow_table(arrows: frozenset[Arrow]) -> np.ndarray:
    table = np.zeros((len(Kind), len(Kind)), bool)
    for query, key in arrows:
        table[query, key] = True
    return table


def same_chunk_arrows(geometry: SequenceGeometry) -> np.ndarray:
    """bool[4, 4]: which kind (row) reads which (column) inside a chunk."""
    arrows = geometry.coupling.noisy | (frozenset() if geometry.prefix_frames else geometry.coupling.clean)
    return np.eye(len(Kind), dtype=bool) | _arrow_table(arrows)


_VIDEO_KINDS = np.array([kind.is_video for kind in Kind])
_CLEAN_KINDS = np.array([kind.is_clean for kind in Kind])


def history_table(history: str) -> np.ndarray:
    """bool[4, 4]: which kind (row) reads which kind (column) of earlier chunks."""
    video_query, video_key = _VIDEO_KINDS[:, None], _VIDEO_KINDS[None, :]
    streams = {
        "full": np.ones((4, 4), bool),
        "video_queries_video_only": ~video_query | video_key,
        "video_only": np.broadcast_to(video_key, (4, 4)),
    }[history]
    return streams & _CLEAN_KINDS[None, :]


def visible_spans(geometry: SequenceGeometry, spans: Spans) -> np.ndarray:
    """The law: bool[spans, spans], rows read columns. Spans must be no coarser than `run_spans`."""
    query, key = np.s_[:, None], np.s_[None, :]
    kinds = spans.kind[query], spans.kind[key]
    same = (spans.chunk[query] == spans.chunk[key]) & same_chunk_arrows(geometry)[kinds]
    past = spans.chunk[key] < spans.chunk[query]
    if geometry.boundary_only:
        at_boundary = spans.frame[key] == _boundary(geometry, spans.frame)[query]
        past = past & (spans.kind[key] == Kind.VC) & at_boundary
    else:
        past = past & history_table(geometry.history)[kinds]
    visible = (same | past) & (np.abs(spans.block[query] - spans.block[key]) <= geometry.window_size)
    if geometry.singleton_frame is not None:
        after = spans.frame >= geometry.singleton_frame
        visible &= ~after[query] | after[key]
    return visible


def key_valid(geometry: SequenceGeometry) -> np.ndarray:
    """bool[tokens] in [VN, VC, AN, AC] order: every video token, and the action tokens whose slot holds an action."""
    video = np.ones(2 * geometry.num_video_frames * geometry.video_tokens_per_frame, bool)
    slots = (
        np.ones(geometry.num_slots, bool) if geometry.action_valid is None else np.asarray(geometry.action_valid, bool)
    )
    return np.concatenate([video, slots, slots])


def dense_visibility(geometry: SequenceGeometry) -> np.ndarray:
    """The whole matrix, for tests: bool[tokens, tokens] in [VN, VC, AN, AC] order, rows read columns."""
    spans = frame_spans(geometry)
    repeats = np.array([geometry.tokens_per_frame(Kind(kind)) for kind in spans.kind])
    frames = np.repeat(np.arange(len(repeats)), repeats)
    return visible_spans(geometry, spans)[np.ix_(frames, frames)] & key_valid(geometry)[None, :]
