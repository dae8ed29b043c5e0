"""The token table and the visibility law of one sample, read token by token.

This package is an oracle: it says again, for one sample alone and as plainly as possible, what the product computes for
many samples at once. It imports nothing from the product. Here every token gets one line of a table, the law is a
boolean expression over pairs of lines, and programs differ by two small tables of arrows.

Tokens lie in the order [VN | VC | AN | AC]: noisy and clean video, noisy and clean actions, frame by frame within each.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np

VN, VC, AN, AC = range(4)
KINDS = (VN, VC, AN, AC)
VIDEO, ACTION = 0, 1
NOISY, CLEAN = 0, 1

COUPLING = {
    "video_then_action": "video_then_action",
    "action_then_video": "action_then_video",
    "joint": "joint",
    "decoupled_same_step": "decoupled_same_step",
    "video_noisy_to_action": "video_noisy_to_action",
    "action_noisy_to_video": "action_noisy_to_video",
    "generalist_joint_denoising": "joint",
    "forward_dynamics": "joint",
    "inverse_dynamics": "joint",
}
PROGRAMS = tuple(COUPLING)
HISTORIES = ("full", "video_queries_video_only", "video_only")

# Couplings whose blocks run action first, as long as there is no prefix.
ACTION_FIRST = {"action_then_video", "action_noisy_to_video"}

# Which kinds a noisy query reads in its own chunk besides its own kind, as (query, key).
NOISY_ARROWS = {
    "video_then_action": {(AN, VC)},
    "action_then_video": {(VN, AC)},
    "joint": {(VN, AN), (AN, VN)},
    "decoupled_same_step": set(),
    "video_noisy_to_action": {(AN, VN)},
    "action_noisy_to_video": {(VN, AN)},
}
# The same for a clean query; these arrows exist only without a prefix.
CLEAN_ARROWS = {
    "video_then_action": {(AC, VC)},
    "action_then_video": {(VC, AC)},
    "joint": {(AC, VC)},
    "decoupled_same_step": set(),
    "video_noisy_to_action": {(AC, VC)},
    "action_noisy_to_video": {(VC, AC)},
}

COLUMNS = [
    ("kind", int),
    ("stream", int),
    ("noise", int),
    ("frame", int),
    ("slot", int),
    ("chunk", int),
    ("block", int),
    ("effective_frame", int),
    ("valid_as_query", bool),
    ("valid_as_kv", bool),
    ("valid_for_loss", bool),
]


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """Everything that decides who sees whom in one sample.

    Attributes:
        num_frames: frames of the dataset, which are also those of the actions; the prefix comes on top of them.
        window_size: largest block distance between a query and a key, inclusive.
        boundary_only: only the clean video frame just before the query's chunk is history; replaces `history`.
        action_valid: `bool[num_frames * actions_per_frame]`; None where every action is real.
    """

    num_frames: int
    video_tokens_per_frame: int
    actions_per_frame: int
    chunk_size: int
    window_size: int
    program: str
    history: str = "full"
    prefix_frames: int = 0
    chunk_origin: int = 0
    singleton_frame: int | None = None
    boundary_only: bool = False
    action_valid: np.ndarray | None = None

    @property
    def coupling(self) -> str:
        return COUPLING[self.program]

    @property
    def model_frames(self) -> int:
        return self.num_frames + self.prefix_frames


def base_chunk(g: Geometry, frame: int) -> int:
    """K(f): the chunk of a dataset frame; frames before a singleton leave the singleton's own chunk."""
    chunk = (frame - g.chunk_origin) // g.chunk_size
    s = g.singleton_frame
    if s is not None and frame < s and chunk == (s - g.chunk_origin) // g.chunk_size:
        return chunk - 1
    return chunk


def chunk_of(g: Geometry, stream: int, frame: int) -> int:
    """Chunk of a token; with a prefix all chunks move up by one to make room for it."""
    p, s = g.prefix_frames, g.singleton_frame
    if p == 0:
        return base_chunk(g, frame)
    if stream == ACTION:
        return base_chunk(g, frame) + 1
    if frame >= p:
        return base_chunk(g, frame - p) + 1
    return 0 if s is None else base_chunk(g, max(0, s - 1)) + 1


def block_of(g: Geometry, stream: int, frame: int) -> int:
    """Half a chunk: the coupling says which stream of a chunk comes first; with a prefix it is always the video."""
    action_first = g.prefix_frames == 0 and g.coupling in ACTION_FIRST
    is_later = (stream == VIDEO) if action_first else (stream == ACTION)
    return 2 * chunk_of(g, stream, frame) + int(is_later)


def effective_frame(g: Geometry, stream: int, frame: int) -> int:
    """Frame number that the cutoff and the boundary compare: shifted only where prefix and singleton meet."""
    p, s = g.prefix_frames, g.singleton_frame
    if stream == ACTION or p == 0 or s is None:
        return frame
    return s - 1 if frame < p else max(0, frame - p)


def _token(g: Geometry, kind: int, frame: int, slot: int) -> tuple[int | bool, ...]:
    stream, noise = kind // 2, kind % 2
    real = stream == VIDEO or g.action_valid is None or bool(g.action_valid[frame * g.actions_per_frame + slot])
    place = (chunk_of(g, stream, frame), block_of(g, stream, frame), effective_frame(g, stream, frame))
    return (kind, stream, noise, frame, slot, *place, True, real, noise == NOISY and real)


def token_table(g: Geometry) -> np.ndarray:
    """One line per token, a structured array with the `COLUMNS`; the prefix is video frame 0."""
    rows = []
    for kind in KINDS:
        frames, slots = (g.model_frames, g.video_tokens_per_frame), (g.num_frames, g.actions_per_frame)
        num_frames, num_slots = frames if kind in (VN, VC) else slots
        rows += [_token(g, kind, frame, slot) for frame, slot in product(range(num_frames), range(num_slots))]
    return np.array(rows, dtype=COLUMNS)


def same_chunk_arrows(g: Geometry) -> np.ndarray:
    """`bool[query kind, key kind]`: what a token reads inside its own chunk."""
    arrows = np.eye(4, dtype=bool)
    extra = NOISY_ARROWS[g.coupling] | (CLEAN_ARROWS[g.coupling] if g.prefix_frames == 0 else set())
    for query, key in extra:
        arrows[query, key] = True
    return arrows


def _history(g: Geometry, q: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Which clean tokens of earlier chunks pass the filter, or the boundary policy that replaces it."""
    clean_video = k["kind"] == VC
    if g.boundary_only:
        o, cs = g.chunk_origin, g.chunk_size
        boundary = o + (q["effective_frame"] - o) // cs * cs - 1
        return clean_video & (k["effective_frame"] == boundary)
    if g.history == "video_only":
        return clean_video
    if g.history == "video_queries_video_only":
        return clean_video | (q["stream"] == ACTION)
    return np.ones_like(clean_video)


def visible(g: Geometry) -> np.ndarray:
    """`bool[tokens, tokens]`: entry (q, k) says whether query q reads key k."""
    table = token_table(g)
    q, k = table[:, None], table[None, :]
    s = g.singleton_frame
    in_window = abs(q["block"] - k["block"]) <= g.window_size
    cutoff = True if s is None else (q["effective_frame"] < s) | (k["effective_frame"] >= s)
    same = (q["chunk"] == k["chunk"]) & same_chunk_arrows(g)[q["kind"], k["kind"]]
    past = (k["noise"] == CLEAN) & (k["chunk"] < q["chunk"]) & _history(g, q, k)
    return q["valid_as_query"] & k["valid_as_kv"] & in_window & cutoff & (same | past)


def text_visible(g: Geometry, stream: int, *, num_text: int, num_proprio: int, mode_token: bool) -> np.ndarray:
    """`bool[tokens of the stream, num_text + num_proprio + mode_token]`, queries of the noisy, then the clean copy.

    Two or more proprio tokens belong to one chunk each, by chunk numbers that know nothing of the prefix; everything
    else is read by every query, masked actions included.
    """
    num_frames, num_slots = g.model_frames, g.video_tokens_per_frame
    if stream == ACTION:
        num_frames, num_slots = g.num_frames, g.actions_per_frame
    rows = []
    for _copy, frame, _slot in product((NOISY, CLEAN), range(num_frames), range(num_slots)):
        proprio = [num_proprio < 2 or j == base_chunk(g, frame) for j in range(num_proprio)]
        rows.append([True] * num_text + proprio + [True] * mode_token)
    return np.array(rows, dtype=bool).reshape(len(rows), num_text + num_proprio + mode_token)
