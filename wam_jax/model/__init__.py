"""The network: two diffusion transformers, one of video latents and one of actions, joined in every layer's attention.

It runs on rows of frames and knows nothing of samples, programs or losses. Parameters travel as pure dicts:

    params = jax.jit(init_params, static_argnums=0)(config, key)
    hidden = merge(config, params)(tokens)
"""

from wam_jax.model.config import ExpertSize, ModelConfig
from wam_jax.model.dual_expert import DualExpert
from wam_jax.model.inputs import RowHidden, RowTokens
from wam_jax.model.parameters import Params, abstract_params, init_params, merge
from wam_jax.model.resolve import model_config

__all__ = [
    "DualExpert",
    "ExpertSize",
    "ModelConfig",
    "Params",
    "RowHidden",
    "RowTokens",
    "abstract_params",
    "init_params",
    "merge",
    "model_config",
]
