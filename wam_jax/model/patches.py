"""Latent frames to token vectors and back. The two orders differ, and published weights depend on both.

A token vector that goes in is ordered (channel, patch row, patch column); one that comes out (patch row, patch column,
channel), channel fastest. Tokens of a frame go row by row.
"""

import jax

from wam_jax.model.config import ModelConfig


def patchify(latents: jax.Array, config: ModelConfig) -> jax.Array:
    """[..., C, H, W] to [..., P, C * ph * pw]."""
    rows, columns = config.grid
    _, height, width = config.patch_size
    channels = config.latent_channels
    split = latents.reshape(-1, channels, rows, height, columns, width)
    tokens = split.transpose(0, 2, 4, 1, 3, 5)
    return tokens.reshape(*latents.shape[:-3], config.tokens_per_frame, config.patch_dim)


def unpatchify(tokens: jax.Array, config: ModelConfig) -> jax.Array:
    """[..., P, ph * pw * C] to [..., C, H, W]."""
    rows, columns = config.grid
    _, height, width = config.patch_size
    channels = config.latent_channels
    split = tokens.reshape(-1, rows, columns, height, width, channels)
    latents = split.transpose(0, 5, 1, 3, 2, 4)
    return latents.reshape(*tokens.shape[:-2], channels, config.latent_height, config.latent_width)
