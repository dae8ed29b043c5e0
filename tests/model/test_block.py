"""The paired block and the heads against their plain restatement in float64."""

import functools

import jax
import numpy as np
import pytest

from tests.model.plain_block import Stream, plain_block, plain_head
from tests.model.rows import (
    ACTION_OWNER,
    TEXT_OWNER,
    VIDEO_OWNER,
    Array,
    normal,
    random_params,
    random_row,
    tiny,
    token_owner,
)
from wam_jax.model import ModelConfig, RowTokens, merge
from wam_jax.model.attention import Visibility
from wam_jax.model.block import StreamContext, paired_block
from wam_jax.model.rotary import action_spatial_phase, video_spatial_phase

DOUBLE = {"compute_dtype": "float64", "param_dtype": "float64"}


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def _inputs(config: ModelConfig, stream: str, shape: tuple[int, int]) -> tuple[Array, Array, Array]:
    """Tokens [1, frames, n, width], vectors [1, frames, 6, width], text [1, K, width] of a stream."""
    rng = np.random.default_rng(len(stream))
    width = getattr(config, stream).width
    tokens, vectors = rng.normal(size=(1, *shape, width)), rng.normal(size=(1, shape[0], 6, width))
    return tokens, vectors, rng.normal(size=(1, len(TEXT_OWNER), width))


def _plain_stream(params: dict, inputs: tuple[np.ndarray, ...], turns: np.ndarray, owner: np.ndarray) -> Stream:
    """The stream as flat tokens; `turns` [frames, n, head_dim / 2], `owner` the sample of each frame."""
    x, m6, text = (a[0] for a in inputs)
    n = x.shape[1]
    token = np.repeat(owner, n)
    reads = token[:, None] == TEXT_OWNER
    flat = x.reshape(-1, x.shape[-1])
    block = jax.tree.map(lambda leaf: leaf[0], params["blocks"])
    return Stream(block, flat, np.repeat(m6, n, axis=0), turns.reshape(len(flat), -1), text, reads)


def _turns(frame_phase: np.ndarray, spatial: np.ndarray, n: int) -> np.ndarray:
    """[frames, n, head_dim / 2] from [frames, n or 1, f / 2, 2] and [n or 1, (h + w) / 2, 2]."""
    frames = len(frame_phase)
    parts = [np.broadcast_to(p, (frames, n, *p.shape[-2:])) for p in (frame_phase, spatial)]
    phase = np.concatenate(parts, axis=2).astype(np.float64)
    return phase[..., 0] + 1j * phase[..., 1]


def _phases(config: ModelConfig, row: RowTokens) -> list[tuple[Array, np.ndarray]]:
    """Frame and spatial phases of both streams, as the blocks take them."""
    video = (row.video_phase[:, :, None], video_spatial_phase(config))
    return [video, (row.action_phase, action_spatial_phase(config))]


@functools.partial(jax.jit, static_argnums=0)
def _network_block(config: ModelConfig, params: dict, inputs: list, row: RowTokens) -> tuple[jax.Array, jax.Array]:
    """The network's first layer."""
    model = merge(config, params)
    video, action = (
        StreamContext(
            modulation=m6,
            frame_phase=frame,
            spatial_phase=spatial,
            text=text,
            text_visibility=Visibility(ranges=ranges, key_valid=None, tiles=()),
        )
        for (_, m6, text), (frame, spatial), ranges in zip(inputs, _phases(config, row), row.ranges[1:], strict=True)
    )
    blocks = jax.tree.map(lambda leaf: leaf[0], (model.video_expert.blocks, model.action_expert.blocks))
    visibility = Visibility(ranges=row.ranges.joint, key_valid=row.key_valid, tiles=())
    return paired_block((inputs[0][0], inputs[1][0]), blocks, (video, action), visibility)


def _plain(config: ModelConfig, params: dict, inputs: list, row: RowTokens) -> list[np.ndarray]:
    """The same layer, plainly."""
    streams = [
        _plain_stream(params[f"{name}_expert"], arrays, _turns(frame[0], spatial, arrays[0].shape[2]), owner)
        for name, arrays, (frame, spatial), owner in zip(
            ("video", "action"), inputs, _phases(config, row), (VIDEO_OWNER, ACTION_OWNER), strict=True
        )
    ]
    owner = token_owner(config)
    mask = (owner[:, None] == owner) & (owner >= 0)[:, None] & row.key_valid[0]
    return plain_block(streams, mask, config.num_heads)


@pytest.mark.parametrize("cross_attn_norm", [True, False])
def test_block_equals_the_plain_block(*, cross_attn_norm: bool) -> None:
    config = tiny(**DOUBLE, cross_attn_norm=cross_attn_norm)
    params, row = random_params(config), random_row(config)
    video = _inputs(config, "video", (len(VIDEO_OWNER), config.tokens_per_frame))
    action = _inputs(config, "action", (len(ACTION_OWNER), config.actions_per_frame))
    actual = _network_block(config, params, [video, action], row)
    expected = _plain(config, params, [video, action], row)
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(np.asarray(a).reshape(b.shape), b, rtol=0, atol=1e-12 * np.abs(b).max())


def test_video_head_uses_the_raw_time_embedding_twice() -> None:
    config = tiny(**DOUBLE)
    params = random_params(config)
    hidden, time = normal(3, 4, 20, dtype="float64"), normal(3, 20, dtype="float64")
    latents = np.asarray(merge(config, params).video_head(hidden, time))
    per_token = np.repeat(time, 4, axis=0)
    expected = plain_head(params["video_expert"]["head"], hidden.reshape(12, 20), per_token, per_token)
    grid = expected.reshape(3, 2, 2, 2, 1, 2)  # frame, row, column, patch row, patch column, channel
    np.testing.assert_allclose(latents, grid.transpose(0, 5, 1, 3, 2, 4).reshape(3, 2, 4, 2), atol=1e-12)


def test_action_head_uses_shift_and_scale_in_this_order() -> None:
    config = tiny(**DOUBLE)
    params = random_params(config)
    hidden, modulation = normal(2, 3, 2, 12, dtype="float64")
    actual = np.asarray(merge(config, params).action_head(hidden, modulation))
    shift, scale = np.repeat(modulation, 2, axis=0).swapaxes(0, 1)
    expected = plain_head(params["action_expert"]["head"], hidden.reshape(6, 12), shift, scale)
    np.testing.assert_allclose(actual.reshape(6, -1), expected, atol=1e-12)
