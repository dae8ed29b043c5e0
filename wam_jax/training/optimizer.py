"""AdamW and its learning rate.

The update of a parameter p with clipped gradient g after n updates is `p - lr(n) * (adam(g) + weight_decay * p)`, the
decay for kernels only. The learning rate is a function of the number of updates and is applied outside of optax's
transformation, so that the rate that is logged is the rate that was used, also after a skipped update.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax

from wam_jax.config.schema import OptimizerConfig

_DECAYED = "kernel"


@dataclass(frozen=True)
class Optimizer:
    """How gradients change parameters.

    Attributes:
        transform: clipped AdamW, gradients to the direction that is subtracted, before the learning rate.
        learning_rate: updates done to the rate of the next one.
        ema_decay: of the moving average of the parameters, or None to keep none.
    """

    transform: optax.GradientTransformation
    learning_rate: optax.Schedule
    ema_decay: float | None

    @property
    def averages(self) -> bool:
        """Whether a moving average of the parameters is kept."""
        return self.ema_decay is not None


def make_optimizer(config: OptimizerConfig, *, num_steps: int) -> Optimizer:
    """The optimizer of a run of `num_steps` updates."""
    schedule = learning_rate_schedule(config, num_steps=num_steps)
    return Optimizer(transform=adamw(config), learning_rate=schedule, ema_decay=config.ema_decay)


def learning_rate_schedule(config: OptimizerConfig, *, num_steps: int) -> optax.Schedule:
    """The rate of the update that follows n others.

    It rises as `(n + 1) / warmup_steps` of `learning_rate`, then stays ("constant") or falls to `final_learning_rate`
    at `num_steps` along a line or half a cosine.
    """
    peak, final, warmup = config.learning_rate, config.final_learning_rate, config.warmup_steps
    after = max(num_steps - warmup, 1)
    falling = {
        "constant": optax.constant_schedule(peak),
        "linear": optax.linear_schedule(peak, final, after),
        "cosine": optax.cosine_decay_schedule(peak, after, alpha=final / peak),
    }[config.schedule]

    def rising(count: Any) -> Any:
        return peak * (count + 1) / warmup

    return optax.join_schedules([rising, falling], [warmup]) if warmup else falling


def adamw(config: OptimizerConfig) -> optax.GradientTransformation:
    """Gradients to the direction that is subtracted, before the learning rate."""
    return optax.chain(
        optax.clip_by_global_norm(config.max_grad_norm) if config.max_grad_norm else optax.identity(),
        optax.scale_by_adam(b1=config.beta1, b2=config.beta2, eps=config.eps),
        optax.add_decayed_weights(config.weight_decay, mask=decay_mask),
    )


def decay_mask(params: Any) -> Any:
    """Which parameters decay: kernels, by the last key of their path (stacked biases have two axes as well)."""
    return jax.tree.map_with_path(lambda path, _: path[-1].key == _DECAYED, params)


def moving_average(average: Any, params: Any, *, decay: float) -> Any:
    """`decay * average + (1 - decay) * params`, leaf by leaf."""
    return jax.tree.map(lambda old, new: jnp.asarray(decay * old + (1 - decay) * new, old.dtype), average, params)
