"""Every field of a run's configuration, its type and its default. Nothing here computes or checks anything.

Names follow the reference implementation where it has one; `policy` is its `policy_variant`. Sizes are in latent frames
unless a name says otherwise. Optional fields are `None` when unset.
"""

from dataclasses import dataclass, field
from typing import Literal

Program = Literal[
    "video_then_action",
    "action_then_video",
    "joint",
    "decoupled_same_step",
    "video_noisy_to_action",
    "action_noisy_to_video",
    "generalist_joint_denoising",
    "forward_dynamics",
    "inverse_dynamics",
]
Contract = Literal[
    "default",
    "context_frame",
    "prefix_frame",
    "rollout_parity_single_frame_perchunk_proprio",
    "legacy_prefix_single_frame_perchunk_proprio",
]
Source = Literal["real_demo", "counterfactual_dynamics"]
ObjectiveName = Literal["joint", "action_conditioned_video", "video_conditioned_action"]
Route = tuple[Source, ObjectiveName, float]
TaskWeight = tuple[str, float]
StoreWeight = tuple[str, float]


@dataclass(frozen=True)
class BatchingConfig:
    """How samples of unequal length share a microbatch; none of it changes what a sample means.

    `strict` takes samples of equal shape. `padded` gives each the slot of the longest. `bucket` sorts each rank's
    stream by length in pools of `bucket_pool_size` and pads. `packed` lays samples back to back; with `max_tokens` (of
    self-attention, both copies of both streams) a microbatch is split by `packer` into as many rows as it needs, by
    default "best_fit". Slots are rounded up to `pad_to_multiple_of` frames. At most `max_compiled_shapes` shapes are
    compiled. `balance_ranks` deals the samples of an update so that the rows of `packed` are even.

    With `tile_alignment` every sample and its text keys begin at multiples of so many tokens, so that no attention tile
    holds two samples: not even a NaN then passes from one to another. It costs the slots up to the next multiple of
    each stream of each sample, which utilisation and budgets count.
    """

    mode: Literal["strict", "padded", "bucket", "packed"] = "strict"
    bucket_pool_size: int = 128
    pad_to_multiple_of: int = 1
    drop_last_train: bool = True
    max_tokens: int | None = None
    packer: Literal["in_order", "first_fit", "best_fit"] | None = None
    balance_ranks: bool = True
    max_compiled_shapes: int = 4
    tile_alignment: int | None = None


@dataclass(frozen=True)
class LossRangeConfig:
    """Which frames of joint samples are supervised: half-open ranges, frames of the sample counted from 0.

    Where both ends of a stream's own range are None, the range `loss_frame_start` to `loss_frame_end` holds, which also
    is the history; where those are None too, the video is supervised behind the history and the actions everywhere.
    """

    loss_frame_start: int | None = None
    loss_frame_end: int | None = None
    latent_loss_frame_start: int | None = None
    latent_loss_frame_end: int | None = None
    action_loss_frame_start: int | None = None
    action_loss_frame_end: int | None = None


@dataclass(frozen=True)
class SampleConstructionConfig:
    """How a stored episode becomes a sample.

    `full_segment` takes the whole episode. `uniform_segment` takes a segment whose length is drawn from
    `min_segment_frames` to `max_segment_frames` in steps of `segment_length_stride` (fixed to the maximum unless
    `randomize_segment_length`) and whose start is every start that has room for it. `chunk_size` and `window_size` are
    upper bounds when `randomize_geometry`, else the values.

    Chunks are counted from frame 0, with `next_after_context` from the first supervised frame. The observed frame of a
    conditional sample is the first of its segment, or with `history` the last of the history that was drawn (never so
    for branches, which begin at theirs). Actions of the frame that a segment begins with are `fill_value` and masked.

    `sample_order_mode` "replacement" draws every sample evenly, or as `replacement_weights` say: by `length` in
    proportion to its latent frames; by `task` so that all tasks have the same share, or shares in proportion to
    `task_weights` (1 for a task that is not named); or by length within tasks. Routes weigh their own samples.
    """

    mode: Literal["full_segment", "uniform_segment"] = "full_segment"
    min_segment_frames: int | None = None
    max_segment_frames: int | None = None
    segment_length_stride: int = 1
    randomize_segment_length: bool = False
    randomize_geometry: bool = True
    chunk_size: int = 2
    window_size: int = 8
    state_horizon: int = 1
    sample_order_mode: Literal["epoch", "replacement"] = "epoch"
    replacement_weights: Literal["uniform", "length", "task", "length_and_task"] = "uniform"
    task_weights: tuple[TaskWeight, ...] = ()
    target_alignment: Literal["legacy", "next_after_context"] = "legacy"
    conditional_start: Literal["segment", "history"] = "segment"
    fill_group: Literal["masked", "supervised"] = "masked"
    fill_value: Literal["zero", "first"] = "zero"
    loss_range: LossRangeConfig = field(default_factory=LossRangeConfig)


@dataclass(frozen=True)
class RoutingConfig:
    """Which objectives a routed program trains, on which episodes, and how often: routes (source, objective, weight).

    Episodes whose source in the store is one of `counterfactual_sources` are `counterfactual_dynamics`, all others
    `real_demo`. Draws of `objective_group` consecutive positions share their route; None takes the number of ranks at
    the run's start, which is stored and kept. An epoch has `length_multiplier` times as many draws as the route with
    the most samples. Without routes a program trains its one objective on the real demonstrations.
    """

    routes: tuple[Route, ...] = ()
    counterfactual_sources: tuple[str, ...] = ("counterfactual_dynamics",)
    objective_group: int | None = None
    length_multiplier: float = 1.0


@dataclass(frozen=True)
class SplitConfig:
    """Which episodes are held out: those of the store's split column, and a stable hash where it says nothing ("auto").

    "column" demands that it names a split for every episode; the others ignore it: "hash" holds about `val_fraction`
    out, "task" the episodes of `val_tasks`, "list" those whose ids are in `val_episodes`.
    """

    source: Literal["auto", "column", "hash", "task", "list"] = "auto"
    val_fraction: float = 0.1
    val_tasks: tuple[str, ...] = ()
    val_episodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class DataConfig:
    """Where trajectories come from and how many make a microbatch on each rank.

    With `more_stores`, each (store, weight), the episodes of several stores are drawn from: with replacement, from each
    store in proportion to its weight, `store_weight` that of the first. All must be encoded alike.

    A store whose payloads are together at most `verify_up_to_bytes` is read and checked as a whole before a run starts;
    of a larger one the held-out draws are, and training draws when their turn comes.
    """

    store: str
    store_weight: float = 1.0
    more_stores: tuple[StoreWeight, ...] = ()
    train_batch_size: int = 1
    val_batch_size: int = 1
    batching: BatchingConfig = field(default_factory=BatchingConfig)
    sample_construction: SampleConstructionConfig = field(default_factory=SampleConstructionConfig)
    split: SplitConfig = field(default_factory=SplitConfig)
    routing: RoutingConfig = field(default_factory=RoutingConfig)
    num_workers: int = 0
    prefetch: int = 4
    verify_up_to_bytes: int = 2**28


@dataclass(frozen=True)
class PolicyConfig:
    """The video/action recipe and the action expert."""

    program: Program
    joint_timestep_coupling: Literal["independent", "match_index", "match_sigma", "shared_video_schedule"] = (
        "independent"
    )
    history_stream_visibility: Literal["full", "video_queries_video_only", "video_only"] = "full"
    noisy_video_condition_prob: float = 0.5
    proprio_context_mode: Literal["none", "per_chunk_additive", "text_context_token"] = "none"
    sequence_contract: Contract = "default"
    context_condition_latent_source: Literal["video_latents", "single_frame_condition_latent"] = "video_latents"
    use_condition_latents: bool = True
    require_condition_latents: bool = False
    generalist_mode_text_token: bool = False
    video_prefix_frames: int = 1
    num_action_layers: int | None = None
    action_hidden_size: int | None = None
    action_ffn_dim: int | None = None
    action_expert_init_mode: Literal["random", "video_weight_copy", "video_weight_interpolate"] = "video_weight_copy"


@dataclass(frozen=True)
class BackboneConfig:
    """The video expert, and what both experts share (layers, heads, head size, text and frequency sizes)."""

    latent_channels: int = 48
    patch_size: tuple[int, int, int] = (1, 2, 2)
    hidden_size: int = 3072
    num_layers: int = 1
    num_heads: int = 8
    head_dim: int = 128
    ffn_dim: int | None = None
    text_dim: int = 4096
    freq_dim: int = 256
    eps: float = 1e-6
    cross_attn_norm: bool = True
    max_text_tokens: int = 512
    compute_dtype: Literal["float32", "bfloat16"] = "float32"
    param_dtype: Literal["float32", "bfloat16"] = "float32"
    remat: Literal["none", "block", "save_attention", "offload"] = "none"
    attention: Literal["auto", "reference", "xla", "pallas_triton", "pallas_mosaic"] = "auto"


@dataclass(frozen=True)
class OptimizerConfig:
    """AdamW: weight decay spares norms, biases and tables."""

    learning_rate: float = 1e-4
    schedule: Literal["constant", "cosine", "linear"] = "constant"
    warmup_steps: int = 0
    final_learning_rate: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0
    max_grad_norm: float | None = None
    ema_decay: float | None = None


@dataclass(frozen=True)
class TrainingConfig:
    """The objective, the optimizer and the pace of a run."""

    num_steps: int
    gradient_accumulation_steps: int = 1
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    num_video_timesteps: int = 1000
    num_action_timesteps: int = 1000
    video_sigma_shift: float = 5.0
    action_sigma_shift: float = 1.0
    action_loss_weight: float = 1.0
    latent_loss_weight: float = 1.0
    text_dropout: float = 0.0
    sample_loss_weight_mode: Literal["none"] = "none"
    nonfinite: Literal["stop", "skip"] = "stop"
    checkpoint_every: int = 1000
    max_checkpoints_to_keep: int = 3
    validate_every: int = 1000
    log_every: int = 1


@dataclass(frozen=True)
class ValidationConfig:
    """Held-out draws: the same ones, with the same noise and timesteps, at every validation."""

    num_draws: int = 64
    report_sigma: float = 0.8
    report_draws: int = 2


@dataclass(frozen=True)
class TrainerConfig:
    """How the devices are laid out. `mesh` is (data, fsdp); -1 takes what is left.

    A process of the run that gives no sign of life for `heartbeat_seconds` counts as dead, and the others end.
    """

    batch_adapter: Literal["latents"] = "latents"
    mesh: tuple[int, int] = (-1, 1)
    heartbeat_seconds: int = 100


@dataclass(frozen=True)
class NumericsConfig:
    """How results may depend on the compiler.

    With `batch_invariant` a sample's predictions, loss and gradient have the same bits in every batch, on devices of
    one kind: samples lie on tiles of their own (`data.batching.tile_alignment`, by default 64 tokens), and everything
    is computed tile by tile.
    """

    batch_invariant: bool = False


@dataclass(frozen=True)
class Config:
    """One run."""

    name: str
    data: DataConfig
    policy: PolicyConfig
    training: TrainingConfig
    seed: int = 0
    backbone: BackboneConfig = field(default_factory=BackboneConfig)
    validation: ValidationConfig = field(default_factory=ValidationConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    numerics: NumericsConfig = field(default_factory=NumericsConfig)
