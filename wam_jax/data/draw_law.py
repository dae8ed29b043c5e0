"""How positions become draws: segment, geometry, objective and text of a whole stretch of positions at once.

A pure function of (configuration, index, seed, phase, epoch, position, item). It reads no payload and keeps no state,
so every process computes the same draws for every rank.
"""

from dataclasses import dataclass

import numpy as np

from wam_jax.config.schema import Config
from wam_jax.data import contracts, proprio
from wam_jax.data.draws import DrawTable
from wam_jax.data.geometry import GeometryLaw, geometry_law
from wam_jax.data.index import Index
from wam_jax.data.samplers import Stretch
from wam_jax.data.segments import SegmentSpace, candidate_lengths
from wam_jax.keys import Phase, Purpose, draw_words, uniform
from wam_jax.sequence import Objective


@dataclass(frozen=True, eq=False)
class DrawLaw:
    """How the positions of one phase over the episodes of one split become draws.

    Attributes:
        seed: the run's.
        phase: the stream of draws.
        space: the items.
        geometry: the law of chunk, window and history.
        objective: of every draw.
        text_tokens: int64, by position in the index.
        text_dropout: probability that a training draw loses its text.
        proprio_tokens: whether chunks have proprioception tokens among the text keys.
    """

    seed: int
    phase: Phase
    space: SegmentSpace
    geometry: GeometryLaw
    objective: Objective
    text_tokens: np.ndarray
    text_dropout: float
    proprio_tokens: bool

    def draws(self, stretch: Stretch, items: np.ndarray) -> DrawTable:
        """The draws of consecutive positions.

        Args:
            stretch: the positions.
            items: int64[stretch.count], the item of each.
        """

        def words(purpose: Purpose) -> np.ndarray:
            return draw_words(self.seed, self.phase, stretch.epoch, purpose, stretch.start, stretch.count)[:, 0]

        segment = self.space.segments(items, words(Purpose.SEGMENT_LENGTH))
        frames = segment.num_frames
        chunk, window = self.geometry.chunk(frames, words), self.geometry.window(frames, words)
        columns = contracts.sequence_columns(items.shape)
        return DrawTable(
            phase=np.full_like(items, self.phase),
            epoch=np.full_like(items, stretch.epoch),
            position=np.arange(stretch.start, stretch.start + stretch.count),
            episode=segment.episode,
            segment_start=segment.start,
            num_frames=frames,
            frame_shift=segment.start,
            chunk_size=chunk,
            window_size=window,
            history_frames=self.geometry.history(frames, chunk, window, words),
            chunk_origin=columns.chunk_origin,
            singleton_frame=columns.singleton_frame,
            prefix_frames=columns.prefix_frames,
            objective=np.full_like(items, self.objective),
            num_text=self.text_tokens[segment.episode],
            num_proprio=proprio.num_chunks(frames, chunk) * self.proprio_tokens,
            drop_text=uniform(words(Purpose.TEXT_DROPOUT)) < self.text_dropout,
        )


def draw_law(config: Config, index: Index, episodes: np.ndarray, phase: Phase, *, text_tokens: np.ndarray) -> DrawLaw:
    """The law of one phase of a run.

    Args:
        config: the run's.
        index: the store's.
        episodes: int64, positions in the index of the episodes to draw from.
        phase: training or validation.
        text_tokens: int64[len(index)], `wam_jax.data.sample_text.text_lengths`.
    Raises:
        InputError: the geometry leaves a draw without a supervised frame.
    """
    construction = config.data.sample_construction
    frames = index.extents["video_latents"][episodes].astype(np.int64)
    space = SegmentSpace(episodes, frames, candidate_lengths(construction))
    shortest = int(space.shortest().min())
    return DrawLaw(
        seed=config.seed,
        phase=phase,
        space=space,
        geometry=geometry_law(construction, video_prefix_frames=config.policy.video_prefix_frames, shortest=shortest),
        objective=contracts.objective_of(config.policy),
        text_tokens=text_tokens,
        text_dropout=config.training.text_dropout if phase is Phase.TRAIN else 0.0,
        proprio_tokens=config.policy.proprio_context_mode == "text_context_token",
    )
