"""Samples of every program, objective and sequence contract, alone and side by side in rows of one shape.

Programs are data: all of these run through the same two compiled programs, a row of four and a row of one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from tests.support.networks import SMALL_NETWORK, UNEQUAL_EXPERTS, policy_for, random_params
from tests.support.runs import Room, tiny_config
from tests.support.stores import tiny_arrays, tiny_encoder
from wam_jax.config.schema import Config
from wam_jax.data.batching.materialize import Materializer
from wam_jax.data.batching.rungs import needed_rung, sized, slotted_frames
from wam_jax.data.batching.shapes import row_constants
from wam_jax.data.construction.sample_text import text_lengths
from wam_jax.data.construction.samples import Sample, SampleReader
from wam_jax.data.drawing.draw_law import draw_law
from wam_jax.data.drawing.draws import DrawTable, concatenate
from wam_jax.data.drawing.samplers import Stretch
from wam_jax.data.encoders.text import HashedWordEncoder
from wam_jax.data.storage.store import Store, open_store
from wam_jax.data.storage.writer import Episode, StoreWriter
from wam_jax.data.transport import RowBatch
from wam_jax.keys import Phase
from wam_jax.sequence.layout import RowConstants
from wam_jax.sequence.rung import Rung
from wam_jax.sequence.tiling import round_up

MOST_FRAMES, TEXT_TOKENS = 5, 4
RAW_STATES = 4
"""The episode that knows its states at raw frames only."""
ADDITIVE: Room = {"proprio_context_mode": "per_chunk_additive", **UNEQUAL_EXPERTS}
PREFIX: Room = {"sequence_contract": "prefix_frame"}
CONTEXT: Room = {
    "sequence_contract": "context_frame",
    "context_condition_latent_source": "single_frame_condition_latent",
    "history_stream_visibility": "video_only",
}
GJD: Room = {"program": "generalist_joint_denoising", "generalist_mode_text_token": True}
FDM, IDM = "action_conditioned_video", "video_conditioned_action"


@dataclass(frozen=True)
class Case:
    """One sample: a program with its options, how it is cut, and where in the stream it is drawn."""

    name: str
    policy: Room
    frames: int = MOST_FRAMES
    construction: Room = field(default_factory=dict)
    loss_range: Room = field(default_factory=dict)
    objective: str | None = None
    dropout: float = 0.0
    episode: int | None = None

    def config(self, base: Room) -> Config:
        """Of a run that has nothing but such samples; `base` are fields of its policy."""
        cut: Room = {"mode": "uniform_segment", "max_segment_frames": self.frames, "chunk_size": 3, "window_size": 6}
        routes = () if self.objective is None else (("real_demo", self.objective, 1.0),)
        return tiny_config(
            policy=base | self.policy,
            construction=cut | self.construction,
            loss_range=self.loss_range,
            routing={"routes": routes},
            training={"num_steps": 4, "text_dropout": self.dropout},
            backbone=SMALL_NETWORK | {"max_text_tokens": TEXT_TOKENS},
        )


def program(name: str, **options: Any) -> Room:
    """Fields of a policy."""
    return {"program": name, **options}


CASES = (
    Case("video_then_action", program("video_then_action", history_stream_visibility="video_only", **PREFIX)),
    Case("action_then_video", program("action_then_video"), dropout=1.0),
    Case("joint", program("joint", context_condition_latent_source="single_frame_condition_latent")),
    Case("joint short", program("joint", **PREFIX), frames=3),
    Case("decoupled_same_step", program("decoupled_same_step", use_condition_latents=False)),
    Case("gjd idm", GJD, objective=IDM),
    Case("video_noisy_to_action", program("video_noisy_to_action", **PREFIX)),
    Case("gjd fdm short", GJD, frames=2, objective=FDM),
    Case(
        "action_noisy_to_video",
        program("action_noisy_to_video", history_stream_visibility="video_queries_video_only"),
        loss_range={
            "latent_loss_frame_start": 2,
            "latent_loss_frame_end": 4,
            "action_loss_frame_start": 1,
            "action_loss_frame_end": 3,
        },
    ),
    Case("gjd fdm", GJD, objective=FDM),
    Case("inverse_dynamics", program("inverse_dynamics")),
    Case("video_then_action short", program("video_then_action"), frames=4, construction={"chunk_size": 1}),
    Case("gjd joint", GJD),
    Case("context", program("joint", **CONTEXT), construction={"target_alignment": "next_after_context"}),
    Case("forward_dynamics", program("forward_dynamics")),
    Case("inverse_dynamics short", program("inverse_dynamics"), frames=3),
)
"""In rows of four, in this order; lengths, programs and objectives differ within each row."""
ROW = 4


@dataclass(frozen=True, eq=False)
class MixedReader:
    """Reads each draw as the run would that it is of; positions tell them apart."""

    readers: Sequence[SampleReader]

    @property
    def config(self) -> Config:
        return self.readers[0].config

    @property
    def constants(self) -> Any:
        return self.readers[0].constants

    @property
    def store(self) -> Store:
        return self.readers[0].store

    def read(self, draw: DrawTable) -> Sample:
        """The sample of one draw."""
        return self.readers[int(draw.position)].read(draw)


@dataclass(eq=False)
class Bench:
    """A store, samples of it, and a network for all of them.

    Attributes:
        store: with states, condition latents and text.
        cases: the samples; one's number is its position in the stream.
        base: fields of every policy; those of the first case size the network.
        batching: fields of how rows are laid out.
        numerics: fields of how they are computed.
        backbone: fields of the network.
    """

    store: Store
    cases: Sequence[Case]
    base: Room
    batching: Room = field(default_factory=dict)
    numerics: Room = field(default_factory=dict)
    backbone: Room = field(default_factory=dict)

    def config(self, number: int) -> Config:
        """Of one case."""
        return self.cases[number].config(self.base)

    @cached_property
    def policy(self) -> Any:
        """Its mode tokens are there for the cases that read them."""
        return policy_for(self._network(self.base | GJD), self.store)

    def _network(self, policy: Room) -> Config:
        backbone = SMALL_NETWORK | self.backbone
        return tiny_config(policy=policy, backbone=backbone, batching=self.batching, numerics=self.numerics)

    @cached_property
    def params(self) -> Any:
        """Away from their initial values."""
        return random_params(self.policy)

    @cached_property
    def draws(self) -> DrawTable:
        """One draw a case."""
        return concatenate([self._draw(number) for number in range(len(self.cases))])

    def batch(self, numbers: Sequence[int], *, slots: int, rung: Rung | None = None) -> RowBatch:
        """One row of `slots` samples, the cases of these numbers in front; of the size that holds any, or of a rung."""
        maker = Materializer(cast(Any, MixedReader(self._readers)), clean_differs=True, video_states=True)
        return maker.batch(self._row(numbers, slots), rung or self.rung(slots))

    def rung(self, slots: int, *, frames: int = MOST_FRAMES) -> Rung:
        """Of a row that holds any samples of so many frames and a prefix, a slot for each."""
        constants, as_text = self._constants, self.base["proprio_context_mode"] == "text_context_token"
        video_frames, action_frames = slotted_frames(frames + 1, frames, slots, constants)
        return sized(
            samples=slots,
            video_slot_frames=frames + 1,
            action_slot_frames=frames,
            video_frames=video_frames,
            action_frames=action_frames,
            text_keys=slots * round_up(TEXT_TOKENS, constants.alignment.keys),
            proprio_keys=slots * round_up(MOST_FRAMES, constants.alignment.keys) if as_text else 0,
            alignment=constants.alignment,
        )

    def exact_rung(self, numbers: Sequence[int]) -> Rung:
        """What a row of these samples needs and no more."""
        return needed_rung(self._row(numbers, len(numbers)), self._constants, samples=len(numbers))

    @cached_property
    def run(self) -> Any:
        """(params, batch, weights[S]) to the losses [S] of every kind and the gradient of their weighted sum."""

        def total(params: Any, batch: RowBatch, weights: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
            losses = self.policy.forward_train_batch(params, batch)
            return jnp.vdot(losses["loss"][0], weights), {name: value[0] for name, value in losses.items()}

        compiled = jax.jit(jax.value_and_grad(total, has_aux=True))

        def run(batch: RowBatch, weights: np.ndarray) -> tuple[dict[str, np.ndarray], Any]:
            (_, losses), gradient = jax.device_get(compiled(self.params, batch, weights))
            return losses, gradient

        return run

    @cached_property
    def alone(self) -> list[tuple[dict[str, np.ndarray], Any]]:
        """Losses [1] and gradient of each case in a row of its own."""
        return [self.run(self.batch([number], slots=1), np.ones(1)) for number in range(len(self.cases))]

    @cached_property
    def _readers(self) -> list[SampleReader]:
        return [SampleReader(self.config(number), self.store, self._constants) for number in range(len(self.cases))]

    @cached_property
    def _constants(self) -> RowConstants:
        widest = self._network(self.base | PREFIX | {"generalist_mode_text_token": True})
        return row_constants(widest, self.store.manifest)

    def _row(self, numbers: Sequence[int], slots: int) -> DrawTable:
        return self.draws[np.array(numbers)].padded(slots).reshape(1, slots)

    def _draw(self, number: int) -> DrawTable:
        config, index = self.config(number), self.store.index
        tokens = text_lengths(index, self.store.manifest, max_text_tokens=config.backbone.max_text_tokens)
        only = self.cases[number].episode
        episodes = np.arange(len(index)) if only is None else np.array([only])
        law = draw_law(config, index, episodes, Phase.TRAIN, text_tokens=tokens)
        item = np.array([(5 * number + 2) % len(law.space)])
        return law.draws(Stretch(0, number, 1), item)


make_bench = partial(Bench, cases=CASES, base=ADDITIVE)

AS_TEXT: Room = ADDITIVE | {"proprio_context_mode": "text_context_token"}
TEXT_CASES = (
    Case("tokens of a joint sample", GJD, construction={"randomize_geometry": False}, episode=2),
    Case("tokens of a conditional sample", GJD, construction={"randomize_geometry": False}, objective=IDM, episode=3),
    Case("one token of all chunks", GJD, objective=FDM, episode=RAW_STATES),
)
"""With proprioception among the text."""


def write_store(path: Path) -> Store:
    """Episodes of several lengths; one brings its own text, one has masked actions, the last nothing but raw states."""
    rng = np.random.default_rng(0)
    texts = ("text_context", "negative_text_context")
    masked = (rng.random((16, 2)) < 0.6).astype(np.float32)
    masked[:2] = masked[5] = 0
    own = {
        1: {name: rng.normal(size=(TEXT_TOKENS, 4)).astype(np.float32) for name in texts},
        3: {"action_mask": masked},
    }
    encoder, words = tiny_encoder(3), HashedWordEncoder(dim=4, tokens=TEXT_TOKENS)
    with StoreWriter(path / "store", encoder=encoder, actions_per_frame=2, text_encoder=words) as writer:
        for number, frames in enumerate((7, 5, 9, 8, 6)):
            arrays = tiny_arrays(frames, height=2, width=4, seed=1000 * number) | own.get(number, {})
            if number == RAW_STATES:
                del arrays["proprio_context_frames"]
            episode = Episode(f"ep{number}", source="tiny", task="push", instruction="push it", fps=20.0, split="train")
            writer.add(episode, arrays)
    return open_store(path / "store")
