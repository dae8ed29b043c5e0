"""Resolving and refusing configurations, before anything is allocated."""

import dataclasses

import jax
import pytest

from tests.model.rows import TINY, tiny
from wam_jax.config.schema import BackboneConfig, Config, DataConfig, PolicyConfig, TrainingConfig
from wam_jax.errors import InputError
from wam_jax.model import ExpertSize, ModelConfig, abstract_params, model_config

DATA = {
    "action_dim": 7,
    "state_dim": 8,
    "text_dim": 4096,
    "latent_height": 8,
    "latent_width": 16,
    "actions_per_frame": 4,
}


def _run(backbone: dict | None = None, policy: dict | None = None) -> Config:
    return Config(
        name="run",
        data=DataConfig(store="store"),
        policy=PolicyConfig(program="joint", **policy or {}),
        training=TrainingConfig(num_steps=1),
        backbone=BackboneConfig(**backbone or {}),
    )


def test_defaults_resolve_to_equal_experts() -> None:
    config = model_config(_run(), **DATA)
    assert config.video == config.action == ExpertSize(width=3072, ffn_dim=12288)
    assert (config.grid, config.tokens_per_frame, config.patch_dim) == ((4, 8), 32, 192)


def test_an_action_expert_of_its_own_size_keeps_the_inner_width() -> None:
    policy = {"action_hidden_size": 2048, "action_ffn_dim": 8192, "action_expert_init_mode": "random"}
    config = model_config(_run({"num_heads": 24}, policy), **DATA)
    assert config.action == ExpertSize(width=2048, ffn_dim=8192)
    query = abstract_params(config)["action_expert"]["blocks"]["self_attention"]["query"]["kernel"]
    assert query.shape == (1, 2048, 3072)


def test_the_five_billion_video_expert_is_expressible() -> None:
    backbone = {"num_layers": 30, "num_heads": 24, "ffn_dim": 14336, "param_dtype": "bfloat16"}
    video = abstract_params(model_config(_run(backbone), **DATA))["video_expert"]
    per_layer = 8 * (3072**2 + 3072) + 4 * 3072 + 2 * 3072 * 14336 + 14336 + 3072 + 6 * 3072 + 2 * 3072
    assert sum(leaf.size for leaf in jax.tree.leaves(video["blocks"])) == 30 * per_layer
    assert {leaf.dtype.name for leaf in jax.tree.leaves(video)} == {"bfloat16"}


@pytest.mark.parametrize(
    ("backbone", "policy", "field"),
    [
        ({"patch_size": (2, 2, 2)}, {}, "backbone.patch_size"),
        ({"patch_size": (1, 3, 2)}, {}, "backbone.patch_size"),
        ({"head_dim": 64}, {}, "backbone.head_dim"),
        ({"freq_dim": 7}, {}, "backbone.freq_dim"),
        ({"text_dim": 64}, {}, "backbone.text_dim"),
        ({"num_layers": 0}, {}, "backbone.num_layers"),
        ({"num_layers": 2}, {"num_action_layers": 3}, "policy.num_action_layers"),
        ({}, {"action_hidden_size": 1024}, "policy.action_expert_init_mode"),
    ],
)
def test_what_cannot_be_built_is_refused_by_name(backbone: dict, policy: dict, field: str) -> None:
    with pytest.raises(InputError) as refusal:
        model_config(_run(backbone, policy), **DATA)
    assert refusal.value.field == field


@pytest.mark.parametrize("mode", ["per_chunk_additive", "text_context_token"])
def test_proprio_needs_states(mode: str) -> None:
    with pytest.raises(InputError, match=r"policy\.proprio_context_mode.*no states"):
        tiny(proprio=mode, state_dim=0)


def test_a_config_is_hashable_and_compares_by_value() -> None:
    twin = ModelConfig(**{field.name: getattr(TINY, field.name) for field in dataclasses.fields(TINY)})
    assert twin == TINY
    assert hash(twin) == hash(TINY)
    assert tiny(eps=1e-5) != TINY


@pytest.mark.parametrize(("compute", "wide"), [("float32", "float32"), ("bfloat16", "float32"), ("float64", "float64")])
def test_the_wide_dtype_is_at_least_float32(compute: str, wide: str) -> None:
    assert tiny(compute_dtype=compute).wide_dtype == wide
