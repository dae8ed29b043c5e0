"""A small network on a small store, away from its initial values, and the measures by which results are compared."""

from typing import Any

import jax
import numpy as np

from wam_jax.config.schema import Config
from wam_jax.data.storage.store import Store
from wam_jax.model import abstract_params, model_config
from wam_jax.policies.dual_expert import DualExpertPolicy, policy_from_config

SMALL_NETWORK: dict[str, Any] = {
    "hidden_size": 16,
    "num_layers": 2,
    "num_heads": 2,
    "head_dim": 8,
    "ffn_dim": 24,
    "freq_dim": 8,
}
"""The room `backbone` of a network that compiles fast and has everything."""

UNEQUAL_EXPERTS: dict[str, Any] = {
    "action_hidden_size": 12,
    "action_ffn_dim": 20,
    "action_expert_init_mode": "random",
}
"""Fields of `policy`: an action expert of other widths."""


def policy_for(config: Config, store: Store) -> DualExpertPolicy:
    """The policy of a configuration on a store."""
    dims = store.manifest.dims
    model = model_config(
        config,
        action_dim=dims.action_dim,
        state_dim=dims.state_dim or 0,
        text_dim=config.backbone.text_dim,
        latent_height=dims.height,
        latent_width=dims.width,
        actions_per_frame=store.manifest.actions_per_frame,
    )
    return policy_from_config(config, model)


def random_params(policy: DualExpertPolicy) -> Any:
    """Parameters with no bias, table or encoder at zero and no norm at one, so that nothing is compared there."""
    rng = np.random.default_rng(0)

    def leaf(path: tuple[Any, ...], shape: jax.ShapeDtypeStruct) -> np.ndarray:
        noise = rng.normal(size=shape.shape)
        match path[-1].key:
            case "kernel":
                noise = noise * shape.shape[-2] ** -0.5
            case "bias":
                noise = noise * 0.1
            case "scale":
                noise = 1 + noise * 0.1
            case "table":
                noise = noise * shape.shape[-1] ** -0.5
        return noise.astype(np.float32)

    return jax.tree.map_with_path(leaf, abstract_params(policy.model))


def relative_error(found: np.ndarray, expected: np.ndarray, floor: float) -> float:
    """Frobenius norm of the difference over that of the expected array, or the floor where that is larger."""
    return float(np.linalg.norm(found - expected) / max(np.linalg.norm(expected), floor))


def worst_error(found: Any, expected: Any) -> tuple[Any, float]:
    """The leaf of two gradient trees with the largest relative error; the floor is 1e-6 of the norm of all."""
    floor = 1e-6 * np.sqrt(sum(np.sum(leaf**2) for leaf in jax.tree.leaves(expected)))
    errors = jax.tree.map(lambda a, b: relative_error(a, b, floor), found, expected)
    return max(jax.tree.leaves_with_path(errors), key=lambda item: item[1])
