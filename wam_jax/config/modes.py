"""The same recipe in another batching mode, for comparing modes on the same draws."""

import dataclasses

from wam_jax.config.schema import BatchingConfig, Config
from wam_jax.config.validate import validate


def in_mode(config: Config, batching: BatchingConfig) -> Config:
    """The configuration with other batching and the same draws an update.

    `strict` takes unequal samples one by one: microbatches of one, accumulated to the same update.

    Raises:
        InputError: the recipe does not go with the mode.
    """
    data, training = dataclasses.replace(config.data, batching=batching), config.training
    if batching.mode == "strict":
        accumulation = data.train_batch_size * training.gradient_accumulation_steps
        data = dataclasses.replace(data, train_batch_size=1, val_batch_size=1)
        training = dataclasses.replace(training, gradient_accumulation_steps=accumulation)
    made = dataclasses.replace(config, data=data, training=training)
    validate(made)
    return made
