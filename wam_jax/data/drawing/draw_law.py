"""How positions become draws: segment, geometry, objective and text of a whole stretch of positions at once.

A pure function of (configuration, index, seed, phase, epoch, position, item). It reads no payload and keeps no state,
so every process computes the same draws for every rank.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from wam_jax.config.schema import Config
from wam_jax.data.drawing import proprio
from wam_jax.data.drawing.contracts import SequenceLaw, sequence_law
from wam_jax.data.drawing.draws import DrawTable
from wam_jax.data.drawing.geometry import GeometryLaw, geometry_law
from wam_jax.data.drawing.routing import COUNTERFACTUAL, Route, active_routes, episodes_of
from wam_jax.data.drawing.samplers import Stretch
from wam_jax.data.drawing.segments import SegmentSpace, candidate_lengths
from wam_jax.data.storage.index import Index
from wam_jax.keys import Phase, Purpose, draw_words, uniform


@dataclass(frozen=True, eq=False)
class DrawLaw:
    """How the positions of one phase over the episodes of one split become draws.

    Items are those of all routes, one route behind the other; a *row* is one episode on one route.

    Attributes:
        seed: the run's.
        phase: the stream of draws.
        space: the items.
        routes: what an item trains, by the route it lies on.
        row_route: int64[rows], ascending, the route of each row of the space.
        geometry: the law of chunk, window and history.
        sequence: what the recipe makes of a segment.
        text_tokens: int64, by position in the index.
        text_dropout: probability that a training draw loses its text.
        chunk_tokens: bool, by position in the index: whether an episode has a proprioception token for each chunk
            among the text keys, rather than one; None where none has any.
    """

    seed: int
    phase: Phase
    space: SegmentSpace
    routes: tuple[Route, ...]
    row_route: np.ndarray
    geometry: GeometryLaw
    sequence: SequenceLaw
    text_tokens: np.ndarray
    text_dropout: float
    chunk_tokens: np.ndarray | None

    @cached_property
    def route_ends(self) -> np.ndarray:
        """One past the last item of each route: int64[routes]."""
        rows = np.searchsorted(self.row_route, np.arange(len(self.routes)), side="right")
        return self.space.ends[rows - 1]

    @property
    def shares(self) -> np.ndarray:
        """Of each route in all draws: float64[routes]."""
        return np.array([route.share for route in self.routes])

    @property
    def row_conditional(self) -> np.ndarray:
        """Whether the draws of each row are conditional: bool[rows]."""
        return np.array([route.objective.conditional for route in self.routes])[self.row_route]

    def draws(self, stretch: Stretch, items: np.ndarray) -> DrawTable:
        """The draws of consecutive positions.

        Args:
            stretch: the positions.
            items: int64[stretch.count], the item of each.
        """

        def words(purpose: Purpose) -> np.ndarray:
            return draw_words(self.seed, self.phase, stretch.epoch, purpose, stretch.start, stretch.count)[:, 0]

        segment = self.space.segments(items, words(Purpose.SEGMENT_LENGTH))
        route = np.searchsorted(self.route_ends, items, side="right")
        objective = np.array([route.objective for route in self.routes], np.int64)[route]
        frames = self.sequence.frames(
            segment.start,
            segment.num_frames,
            self.geometry.draw(segment.num_frames, words),
            conditional=objective > 0,
            branch=self._is_branch[route],
        )
        return DrawTable(
            phase=np.full_like(items, self.phase),
            epoch=np.full_like(items, stretch.epoch),
            position=np.arange(stretch.start, stretch.start + stretch.count),
            episode=segment.episode,
            segment_start=frames.start,
            num_frames=frames.num_frames,
            frame_shift=frames.start,
            chunk_size=frames.chunk_size,
            window_size=frames.window_size,
            history_frames=frames.history_frames,
            chunk_origin=frames.chunk_origin,
            singleton_frame=frames.singleton_frame,
            prefix_frames=frames.prefix_frames,
            objective=objective,
            route=route,
            num_text=self.text_tokens[segment.episode],
            num_proprio=self._num_proprio(segment.episode, frames.num_frames, frames.chunk_size),
            drop_text=uniform(words(Purpose.TEXT_DROPOUT)) < self.text_dropout,
        )

    def provenance(self, draws: DrawTable) -> dict[str, np.ndarray]:
        """Where draws came from: arrays of str in their shape, `source`, `objective` and `route` (its name)."""
        stamps = {
            "source": [route.source for route in self.routes],
            "objective": [route.objective.label for route in self.routes],
            "route": [route.name for route in self.routes],
        }
        return {name: np.array(values)[draws.route] for name, values in stamps.items()}

    def shortest(self) -> np.ndarray:
        """The least frames that a sample of each row can have, a prefix not counted: int64[rows]."""
        frames = self.space.shortest()
        return self._seen(frames, self.geometry.history_bounds(frames)[1])

    def longest(self) -> np.ndarray:
        """The most frames that a sample of each row can have: int64[rows]; a bound where the history is drawn."""
        frames = self.space.longest()
        return self._seen(frames, self.geometry.history_bounds(frames)[0])

    def prefix_frames(self) -> np.ndarray:
        """Frames that the model prepends to the samples of each row: int64[rows]."""
        return np.where(self.row_conditional, 0, self.sequence.contract.prefix_frames)

    def most_proprio(self, chunks: int) -> int:
        """The most proprioception tokens a sample of at most so many chunks can have among its text keys."""
        if self.chunk_tokens is None:
            return 0
        return chunks if self.chunk_tokens[self.space.episodes].any() else 1

    def _seen(self, frames: np.ndarray, drawn_history: np.ndarray) -> np.ndarray:
        history, branch = self.sequence.history(drawn_history), self._is_branch[self.row_route]
        return frames - self.sequence.unseen(history, conditional=self.row_conditional, branch=branch)

    def _num_proprio(self, episode: np.ndarray, frames: np.ndarray, chunk: np.ndarray) -> np.ndarray:
        if self.chunk_tokens is None:
            return np.zeros_like(frames)
        return np.where(self.chunk_tokens[episode], proprio.num_chunks(frames, chunk), 1)

    @property
    def _is_branch(self) -> np.ndarray:
        return np.array([route.source == COUNTERFACTUAL for route in self.routes])


def draw_law(config: Config, index: Index, episodes: np.ndarray, phase: Phase, *, text_tokens: np.ndarray) -> DrawLaw:
    """The law of one phase of a run.

    Args:
        config: the run's.
        index: the store's.
        episodes: int64, positions in the index of the episodes to draw from.
        phase: training or validation.
        text_tokens: int64[len(index)], `wam_jax.data.construction.sample_text.text_lengths`.
    Raises:
        InputError: a route has no episode, or the geometry or a loss range leaves a draw without a supervised frame.
    """
    construction, sequence, routes = config.data.sample_construction, sequence_law(config), active_routes(config)
    branches, split = config.data.routing.counterfactual_sources, phase.name.lower()
    rows = [episodes_of(route, index, episodes, counterfactual=branches, split=split) for route in routes]
    taken = np.concatenate(rows)
    frames = index.extents["video_latents"][taken].astype(np.int64)
    space = SegmentSpace(taken, frames, candidate_lengths(construction))
    shortest = int(space.shortest().min())
    sequence.ranges.check(shortest)
    as_tokens = config.policy.proprio_context_mode == "text_context_token"
    return DrawLaw(
        seed=config.seed,
        phase=phase,
        space=space,
        routes=routes,
        row_route=np.repeat(np.arange(len(rows)), [len(row) for row in rows]),
        geometry=geometry_law(construction, video_prefix_frames=config.policy.video_prefix_frames, shortest=shortest),
        sequence=sequence,
        text_tokens=text_tokens,
        text_dropout=config.training.text_dropout if phase is Phase.TRAIN else 0.0,
        chunk_tokens=proprio.has_chunk_tokens(index) if as_tokens else None,
    )
