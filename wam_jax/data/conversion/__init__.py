"""From other people's files to a store: what `python -m wam_jax.data.convert` is made of."""
