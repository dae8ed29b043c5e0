"""The rules of a configuration that need no data: ranges of numbers, fields that must agree, what is supported so far.

`SUPPORTED` is the one table of what the schema can say and this version cannot do. A rule names the field, the value
and what would be accepted; rules that need the store's sizes are checked where the store is opened.
"""

from collections.abc import Callable
from typing import Any

from wam_jax.config import names, recipe
from wam_jax.config.schema import Config, LossRangeConfig
from wam_jax.errors import InputError
from wam_jax.sequence.rope import axis_split

SUPPORTED: dict[str, tuple[Any, ...]] = {
    "training.sample_loss_weight_mode": ("none",),
}

_Range = tuple[Callable[[Any], bool], str]
_POSITIVE: _Range = (lambda value: value > 0, "must be above 0")
_NOT_NEGATIVE: _Range = (lambda value: value >= 0, "must not be negative")
_PROBABILITY: _Range = (lambda value: 0 <= value <= 1, "must be between 0 and 1")
_DECAY: _Range = (lambda value: 0 <= value < 1, "must be at least 0 and below 1")
_FRACTION: _Range = (lambda value: 0 < value < 1, "must be above 0 and below 1")

# Numbers not named here must be positive.
_RANGES: dict[str, _Range] = {
    "seed": (lambda value: 0 <= value < 2**32, "must be at least 0 and below 2**32"),
    "data.num_workers": _NOT_NEGATIVE,
    "data.split.val_fraction": _FRACTION,
    "data.verify_up_to_bytes": _NOT_NEGATIVE,
    **{f"{recipe.LOSS_RANGE}.{name}": _NOT_NEGATIVE for name in names.declared(LossRangeConfig)},
    "policy.noisy_video_condition_prob": _PROBABILITY,
    "policy.video_prefix_frames": _NOT_NEGATIVE,
    "training.action_loss_weight": _NOT_NEGATIVE,
    "training.latent_loss_weight": _NOT_NEGATIVE,
    "training.text_dropout": _PROBABILITY,
    "training.optimizer.warmup_steps": _NOT_NEGATIVE,
    "training.optimizer.final_learning_rate": _NOT_NEGATIVE,
    "training.optimizer.weight_decay": _NOT_NEGATIVE,
    "training.optimizer.beta1": _DECAY,
    "training.optimizer.beta2": _DECAY,
    "training.optimizer.ema_decay": _FRACTION,
    "validation.report_sigma": (lambda value: 0 < value <= 1, "must be above 0 and at most 1"),
    "validation.report_draws": _NOT_NEGATIVE,
}

_SHORTEST_SEGMENT = 2
_SMALLEST_TILE, _LARGEST_TILE = 16, 1024


def validate(config: Config) -> None:
    """Checks every rule.

    Raises:
        InputError: naming the first field that breaks one.
    """
    for name, accepted in SUPPORTED.items():
        if names.get(config, name) not in accepted:
            choices = ", ".join(repr(choice) for choice in accepted)
            raise InputError(name, names.get(config, name), f"not supported yet; use {choices}")
    for name, value in names.flatten(config).items():
        allows, wanted = _RANGES.get(name, _POSITIVE)
        if isinstance(value, int | float) and not isinstance(value, bool) and not allows(value):
            raise InputError(name, value, wanted)
    for rule in (_stores, _splits, _segments, _batching, *recipe.RULES, _backbone, _optimizer, _mesh):
        rule(config)


def _batching(config: Config) -> None:
    batching = config.data.batching
    if batching.max_tokens is not None and batching.mode != "packed":
        raise InputError("data.batching.max_tokens", batching.max_tokens, "only mode 'packed' has a budget; unset it")
    if batching.packer is not None and batching.max_tokens is None:
        raise InputError("data.batching.packer", batching.packer, "needs data.batching.max_tokens; unset it")
    tile = recipe.tile_alignment(config)
    if tile is not None and (tile & (tile - 1) or not _SMALLEST_TILE <= tile <= _LARGEST_TILE):
        remedy = f"must be a power of two from {_SMALLEST_TILE} to {_LARGEST_TILE}, as tiles are"
        raise InputError("data.batching.tile_alignment", tile, remedy)
    if tile is not None and config.backbone.attention == "reference":
        raise InputError("backbone.attention", "reference", "reads no tiles; unset data.batching.tile_alignment")
    if batching.mode == "bucket" and len(config.data.routing.routes) > 1:
        remedy = "routes fix who trains which objective when, and buckets would reorder that; use padded or packed"
        raise InputError("data.batching.mode", "bucket", remedy)


def _stores(config: Config) -> None:
    data, order = config.data, config.data.sample_construction.sample_order_mode
    if data.more_stores and order != "replacement":
        remedy = "takes every sample once, so stores cannot have weights; use 'replacement'"
        raise InputError("data.sample_construction.sample_order_mode", order, remedy)
    if not data.more_stores and data.store_weight != 1:
        raise InputError("data.store_weight", data.store_weight, "weighs nothing without data.more_stores; unset it")
    for name, weight in data.more_stores:
        if not 0 < weight < float("inf"):
            raise InputError("data.more_stores", (name, weight), "weights above 0")


def _splits(config: Config) -> None:
    split = config.data.split
    for source, field in (("task", "val_tasks"), ("list", "val_episodes")):
        given = getattr(split, field)
        if (split.source == source) != bool(given):
            remedy = f"go together with data.split.source = {source!r}; set both or neither"
            raise InputError(f"data.split.{field}", given, remedy)


def _segments(config: Config) -> None:
    at, sample = "data.sample_construction", config.data.sample_construction
    if sample.mode == "full_segment":
        for name in ("min_segment_frames", "max_segment_frames"):
            if getattr(sample, name) is not None:
                raise InputError(
                    f"{at}.{name}", getattr(sample, name), "only mode 'uniform_segment' cuts; leave it None"
                )
        return
    longest = sample.max_segment_frames
    if longest is None or longest < _SHORTEST_SEGMENT:
        raise InputError(f"{at}.max_segment_frames", longest, f"'uniform_segment' needs at least {_SHORTEST_SEGMENT}")
    shortest = sample.min_segment_frames
    if shortest is not None and not _SHORTEST_SEGMENT <= shortest <= longest:
        raise InputError(
            f"{at}.min_segment_frames",
            shortest,
            f"must be between {_SHORTEST_SEGMENT} and max_segment_frames {longest}",
        )
    if sample.randomize_segment_length and shortest is None:
        raise InputError(f"{at}.min_segment_frames", None, "randomize_segment_length needs the shortest length")


def _backbone(config: Config) -> None:
    backbone = config.backbone
    try:
        axis_split(backbone.head_dim)
    except ValueError as error:
        raise InputError("backbone.head_dim", backbone.head_dim, str(error)) from None
    if backbone.freq_dim % 2:
        raise InputError("backbone.freq_dim", backbone.freq_dim, "must be even: half sines, half cosines")
    if backbone.patch_size[0] != 1 or min(backbone.patch_size) < 1:
        raise InputError("backbone.patch_size", backbone.patch_size, "must be (1, height, width) of positive sizes")


def _optimizer(config: Config) -> None:
    at, optimizer, steps = "training.optimizer", config.training.optimizer, config.training.num_steps
    if optimizer.warmup_steps > steps:
        raise InputError(f"{at}.warmup_steps", optimizer.warmup_steps, f"must not exceed training.num_steps {steps}")
    if optimizer.final_learning_rate > optimizer.learning_rate:
        raise InputError(
            f"{at}.final_learning_rate",
            optimizer.final_learning_rate,
            f"must not exceed {at}.learning_rate {optimizer.learning_rate}",
        )
    if optimizer.schedule == "constant" and optimizer.final_learning_rate:
        raise InputError(
            f"{at}.final_learning_rate", optimizer.final_learning_rate, "needs schedule 'cosine' or 'linear'"
        )


def _mesh(config: Config) -> None:
    mesh = config.trainer.mesh
    if any(size < 1 and size != -1 for size in mesh) or mesh.count(-1) > 1:
        raise InputError(
            "trainer.mesh", mesh, "must be (data, fsdp), each a positive number of devices, at most one -1"
        )
