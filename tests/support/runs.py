"""Configurations for small stores: the sizes of `write_tiny_store`, every room open to changes."""

from typing import Any

from wam_jax.config.schema import (
    BackboneConfig,
    BatchingConfig,
    Config,
    DataConfig,
    LossRangeConfig,
    NumericsConfig,
    PolicyConfig,
    RoutingConfig,
    SampleConstructionConfig,
    SplitConfig,
    TrainingConfig,
    ValidationConfig,
)

Room = dict[str, Any]

_DATA: Room = {"store": "unused", "train_batch_size": 2, "val_batch_size": 2, "prefetch": 2}
_POLICY: Room = {"program": "joint"}
_TRAINING: Room = {"num_steps": 4}
_BACKBONE: Room = {"latent_channels": 3, "text_dim": 4, "head_dim": 8, "max_text_tokens": 5}


def tiny_config(
    *,
    seed: int = 0,
    data: Room | None = None,
    construction: Room | None = None,
    loss_range: Room | None = None,
    routing: Room | None = None,
    batching: Room | None = None,
    split: Room | None = None,
    policy: Room | None = None,
    training: Room | None = None,
    backbone: Room | None = None,
    validation: Room | None = None,
    numerics: Room | None = None,
) -> Config:
    """The configuration of a tiny run; each argument changes fields of one room."""
    return Config(
        name="tiny",
        seed=seed,
        data=DataConfig(
            **_DATA | (data or {}),
            batching=BatchingConfig(**batching or {}),
            sample_construction=SampleConstructionConfig(
                **construction or {}, loss_range=LossRangeConfig(**loss_range or {})
            ),
            routing=RoutingConfig(**routing or {}),
            split=SplitConfig(**split or {}),
        ),
        policy=PolicyConfig(**_POLICY | (policy or {})),
        training=TrainingConfig(**_TRAINING | (training or {})),
        backbone=BackboneConfig(**_BACKBONE | (backbone or {})),
        validation=ValidationConfig(**validation or {}),
        numerics=NumericsConfig(**numerics or {}),
    )


SEGMENTS_OF_3: Room = {"mode": "uniform_segment", "max_segment_frames": 3}
"""Sample construction that cuts segments of three frames, so that batches of the tiny stores are rectangular."""
