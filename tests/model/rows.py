"""Tiny models, parameters without a generator's compile time, and rows that hold two samples and padding.

A row is laid out as the network sees it: sample 0, sample 1, then one frame of padding, in either buffer.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from wam_jax.model import ExpertSize, ModelConfig, Params, RowHidden, RowTokens, abstract_params, merge
from wam_jax.sequence.rope import axis_split, phases
from wam_jax.sequence.row_tiles import RowRanges, RowTiles
from wam_kernels import KeyRanges

TINY = ModelConfig(
    latent_channels=2,
    latent_height=4,
    latent_width=2,
    patch_size=(1, 2, 1),
    action_dim=3,
    actions_per_frame=2,
    state_dim=5,
    text_dim=6,
    video=ExpertSize(width=20, ffn_dim=28),
    action=ExpertSize(width=12, ffn_dim=16),
    num_layers=2,
    num_heads=2,
    head_dim=8,
    freq_dim=8,
    action_init="video_weight_interpolate",
)
VIDEO_OWNER = np.array([0, 0, 1, 1, 1, -1])
"""The sample of each video frame of a row; -1 is padding."""
ACTION_OWNER = np.array([0, 1, 1, -1])
TEXT_OWNER = np.array([0, 0, 1])


type Array = Any
"""A NumPy or JAX array: the network takes both."""

QUICK = {"xla_backend_optimization_level": 0}
"""Options for `jax.jit` where compiling takes far longer than running: generators of initial values, gradients."""


def normal(*shape: int, seed: int = 0, dtype: str = "float32") -> Array:
    """Standard normal noise."""
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def tiny(**changes: Any) -> ModelConfig:
    """`TINY` with some fields changed."""
    return dataclasses.replace(TINY, **changes)


@functools.lru_cache
def random_params(config: ModelConfig, seed: int = 0) -> Params:
    """Parameters of which none is zero or one: kernels 1 / sqrt(in), scales about 1, all else small."""
    rng = np.random.default_rng(seed)

    def draw(path: tuple[jax.tree_util.DictKey, ...], leaf: jax.ShapeDtypeStruct) -> np.ndarray:
        spread = leaf.shape[-2] ** -0.5 if path[-1].key == "kernel" else 0.2
        values = rng.normal(size=leaf.shape) * spread + (path[-1].key == "scale")
        return values.astype(leaf.dtype)

    return jax.tree.map_with_path(draw, abstract_params(config))


def token_owner(config: ModelConfig) -> np.ndarray:
    """The sample of each token of a row, video tokens first."""
    video = np.repeat(VIDEO_OWNER, config.tokens_per_frame)
    return np.concatenate([video, np.repeat(ACTION_OWNER, config.actions_per_frame)])


def random_row(config: ModelConfig, seed: int = 0) -> RowTokens:
    """One row; a token reads all valid keys of its sample, and one action slot is not valid as a key."""
    rng = np.random.default_rng(seed)
    nv, na, a = len(VIDEO_OWNER), len(ACTION_OWNER), config.actions_per_frame
    frame_axis = axis_split(config.head_dim)[0]

    def noise(owner: np.ndarray, *shape: int) -> Array:
        real = (owner >= 0).reshape(1, -1, *[1] * len(shape))
        return (rng.normal(size=(1, len(owner), *shape)) * real).astype(np.float32)

    latent = (config.latent_channels, config.latent_height, config.latent_width)
    adds, as_text = config.proprio == "per_chunk_additive", config.proprio == "text_context_token"
    key_valid: Array = token_owner(config)[None] >= 0
    key_valid[0, nv * config.tokens_per_frame] = False
    objective: Array = np.array([[2, 0]], np.int32)
    frames: Array = phases(np.arange(nv, dtype=float)[None], frame_axis)
    slots: Array = phases(np.arange(na * a, dtype=float).reshape(1, na, a) / (a + 1), frame_axis)
    return RowTokens(
        video_latents=noise(VIDEO_OWNER, *latent),
        video_timesteps=np.abs(noise(VIDEO_OWNER)) * 300,
        video_proprio=noise(VIDEO_OWNER, config.state_dim) if adds else None,
        actions=noise(ACTION_OWNER, a, config.action_dim),
        action_timesteps=np.abs(noise(ACTION_OWNER)) * 300,
        action_proprio=noise(ACTION_OWNER, config.state_dim) if adds else None,
        text=noise(TEXT_OWNER, config.text_dim),
        proprio_keys=noise(np.array([0, 1]), config.state_dim) if as_text else None,
        objective=objective,
        video_phase=frames,
        action_phase=slots,
        ranges=RowRanges(
            joint=_joint_ranges(config),
            video_text=_text_ranges(config, np.repeat(VIDEO_OWNER, config.tokens_per_frame)),
            action_text=_text_ranges(config, np.repeat(ACTION_OWNER, a)),
        ),
        key_valid=key_valid,
        tiles=RowTiles(),
    )


def random_rows(config: ModelConfig, num_rows: int = 2) -> RowTokens:
    """Several rows of different contents."""
    return jax.tree.map(lambda *rows: np.concatenate(rows), *(random_row(config, seed) for seed in range(num_rows)))


def text_owner(config: ModelConfig) -> np.ndarray:
    """The sample of each text key: text, proprio tokens, mode tokens."""
    pair = np.array([0, 1])
    proprio = pair if config.proprio == "text_context_token" else pair[:0]
    return np.concatenate([TEXT_OWNER, proprio, pair if config.mode_token else pair[:0]])


def _joint_ranges(config: ModelConfig) -> KeyRanges:
    owner = token_owner(config)
    return KeyRanges(_tables(owner, 2), (owner + 1)[None].astype(np.int32))


def _text_ranges(config: ModelConfig, query_owner: np.ndarray) -> KeyRanges:
    return KeyRanges(_tables(text_owner(config), 3), (query_owner + 1)[None].astype(np.int32))


def _tables(key_owner: np.ndarray, ranges: int) -> np.ndarray:
    """Run 0 reads nothing, run s + 1 the keys of sample s."""
    table = np.zeros((1, 3, ranges, 2), np.int32)
    for sample in (0, 1):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], (key_owner == sample).astype(int), [0]])))
        table[0, sample + 1, : len(edges) // 2] = edges.reshape(-1, 2)
    return table


@functools.partial(jax.jit, static_argnums=0)
def forward(config: ModelConfig, params: Params, row: RowTokens) -> tuple[RowHidden, jax.Array, jax.Array]:
    """The whole network: what the blocks leave behind, and the velocities of all frames of the row."""
    model = merge(config, params)
    out = model(row)
    return out, model.video_head(out.video, out.video_time), model.action_head(out.action, out.action_modulation)


def velocities(config: ModelConfig, params: Params, row: RowTokens) -> tuple[jax.Array, jax.Array]:
    """The velocities alone."""
    return forward(config, params, row)[1:]


def mean_square(config: ModelConfig, params: Params, row: RowTokens) -> jax.Array:
    """Some loss of both streams."""
    video, action = velocities(config, params, row)
    return jnp.mean(jnp.square(video)) + jnp.mean(jnp.square(action))
