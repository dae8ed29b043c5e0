"""The configuration of a run: its schema, config files and overrides, and the rules that need no data."""

from wam_jax.config.convert import default_config
from wam_jax.config.load import LoadedConfig, load, read_config
from wam_jax.config.schema import Config

__all__ = ["Config", "LoadedConfig", "default_config", "load", "read_config"]
