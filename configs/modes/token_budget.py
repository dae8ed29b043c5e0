"""Token budgets: samples are packed into rows of bounded size, however many that makes.

    python -m wam_jax.train --config configs/modes/token_budget.py --workdir runs/token-budget

An update still consumes eight samples and weighs them equally, but runs in as many calls as rows of at most 4,000
self-attention tokens need (both copies of video and actions; text is not counted). 0.95 of the token slots are real.
For scarce memory and lengths that vary much: no row grows with its longest samples.

Refused: a sample that alone exceeds the budget, by name before the run starts; any other mode; a packer without a
budget.
"""

from pathlib import Path

from ml_collections import ConfigDict

from wam_jax.config import read_config


def get_config() -> ConfigDict:
    """The whole trajectories of the benchmark, packed into rows of 4,000 tokens."""
    config = read_config(Path(__file__).parents[1] / "bench.py")
    config.name = "token-budget"
    config.data.batching.mode = "packed"
    config.data.batching.max_tokens = 4000
    config.data.batching.packer = "best_fit"
    return config
