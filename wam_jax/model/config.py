"""Everything the network's shape and arithmetic depend on, resolved: no field is optional and none has to be guessed.

A `ModelConfig` is hashable, so it can be a static argument of a compiled function. It checks itself when it is made,
with the names that a user knows (`backbone.patch_size`), before any parameter is allocated.
"""

from dataclasses import dataclass
from typing import Literal

import jax.numpy as jnp

from wam_jax.errors import InputError
from wam_jax.sequence.rope import axis_split

type DType = jnp.dtype
type ActionInit = Literal["random", "video_weight_copy", "video_weight_interpolate"]
type Remat = Literal["none", "block", "save_attention", "offload"]


@dataclass(frozen=True, kw_only=True)
class ExpertSize:
    """What the two experts may have differently: the widths of their residual stream and of their feed-forward."""

    width: int
    ffn_dim: int


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Sizes, options and dtypes of a `DualExpert`.

    Attributes:
        latent_channels, latent_height, latent_width: C, H, W of a latent frame.
        patch_size: (1, ph, pw); ph and pw divide H and W.
        action_dim, actions_per_frame: D, A.
        state_dim: entries of a proprioceptive state; only read where `proprio` is not "none".
        text_dim: width of the text vectors as they come.
        video, action: the experts' sizes.
        num_layers, num_heads, head_dim: shared by both experts, who meet in one attention.
        freq_dim: size of the sinusoid of a timestep, even.
        eps: of every norm.
        cross_attn_norm: whether the query of cross-attention passes an affine LayerNorm.
        proprio: how states enter: not at all, added to the tokens of their frame, or as tokens among the text.
        mode_token: whether a learned token that names the objective stands among the text.
        action_init: where the action expert's initial weights come from (`wam_jax.model.action_init`).
        compute_dtype: of the residual streams and matrix products. "float64" (under x64) makes an oracle.
        param_dtype: of the parameters.
        remat: what the backward pass recomputes (`wam_jax.model.remat`).
        attention: backend of `wam_kernels.range_attention`; "auto" leaves the choice to it.
        tile: tokens at whose multiples samples and their text keys begin, or None where they lie back to back.
        batch_invariant: whether all token-wise work is done in tiles of `tile` tokens (`wam_jax.model.segments`).
    """

    latent_channels: int
    latent_height: int
    latent_width: int
    patch_size: tuple[int, int, int]
    action_dim: int
    actions_per_frame: int
    state_dim: int
    text_dim: int
    video: ExpertSize
    action: ExpertSize
    num_layers: int
    num_heads: int
    head_dim: int
    freq_dim: int = 256
    eps: float = 1e-6
    cross_attn_norm: bool = True
    proprio: Literal["none", "per_chunk_additive", "text_context_token"] = "none"
    mode_token: bool = False
    action_init: ActionInit = "video_weight_copy"
    compute_dtype: Literal["float32", "bfloat16", "float64"] = "float32"
    param_dtype: Literal["float32", "bfloat16", "float64"] = "float32"
    remat: Remat = "none"
    attention: str = "auto"
    tile: int | None = None
    batch_invariant: bool = False

    def __post_init__(self) -> None:
        _check_sizes(self)
        _check_patches(self)
        _check_experts(self)
        try:
            axis_split(self.head_dim)
        except ValueError as error:
            raise InputError("backbone.head_dim", self.head_dim, str(error)) from error

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of video tokens in a frame."""
        return self.latent_height // self.patch_size[1], self.latent_width // self.patch_size[2]

    @property
    def tokens_per_frame(self) -> int:
        """P, the video tokens of a frame."""
        return self.grid[0] * self.grid[1]

    @property
    def patch_dim(self) -> int:
        """Entries of the latent that a video token stands for."""
        return self.latent_channels * self.patch_size[1] * self.patch_size[2]

    @property
    def inner_width(self) -> int:
        """Width of queries, keys and values, the same in both experts whatever their own widths are."""
        return self.num_heads * self.head_dim

    @property
    def dtype(self) -> DType:
        """The compute dtype: residual streams, matrix products, query/key norms."""
        return jnp.dtype(self.compute_dtype)

    @property
    def wide_dtype(self) -> DType:
        """Where the semantics ask for float32: LayerNorm, modulation, gated residuals, RoPE (float64 in float64)."""
        return jnp.promote_types(self.dtype, jnp.float32)


def _check_sizes(config: ModelConfig) -> None:
    sizes = {
        "backbone.latent_channels": config.latent_channels,
        "backbone.text_dim": config.text_dim,
        "backbone.hidden_size": config.video.width,
        "backbone.ffn_dim": config.video.ffn_dim,
        "backbone.num_layers": config.num_layers,
        "backbone.num_heads": config.num_heads,
        "policy.action_hidden_size": config.action.width,
        "policy.action_ffn_dim": config.action.ffn_dim,
        "action_dim of the data": config.action_dim,
        "actions_per_frame of the data": config.actions_per_frame,
    }
    for field, size in sizes.items():
        if size < 1:
            raise InputError(field, size, "must be at least 1")
    if config.freq_dim < 2 or config.freq_dim % 2:
        raise InputError("backbone.freq_dim", config.freq_dim, "must be even and at least 2: half cosines, half sines")
    if config.proprio != "none" and config.state_dim < 1:
        raise InputError("policy.proprio_context_mode", config.proprio, "the data has no states; only 'none' works")


def _check_patches(config: ModelConfig) -> None:
    patch_time, patch_height, patch_width = config.patch_size
    if patch_time != 1:
        raise InputError(
            "backbone.patch_size", config.patch_size, "must start with 1: timesteps belong to single frames"
        )
    latent = (config.latent_height, config.latent_width)
    if min(patch_height, patch_width) < 1 or latent[0] % patch_height or latent[1] % patch_width:
        raise InputError(
            "backbone.patch_size", config.patch_size, f"must divide the latent's height and width {latent}"
        )


def _check_experts(config: ModelConfig) -> None:
    if config.action_init == "video_weight_copy" and config.action != config.video:
        remedy = (
            f"needs equal experts, but width and ffn are {config.action.width}, {config.action.ffn_dim} (action) and "
            f"{config.video.width}, {config.video.ffn_dim} (video); use 'video_weight_interpolate' or 'random'"
        )
        raise InputError("policy.action_expert_init_mode", config.action_init, remedy)
