"""The benchmark command on a tiny run: modes see the same draws, the JSON says what the table says, and it can fail."""

import json

import pytest

from tests.support.stores import write_tiny_store
from wam_jax import benchmark
from wam_jax.benchmarking.modes import mode_config, whole_pools
from wam_jax.benchmarking.packers import CAPACITY, measure_dealing, measure_packers, synthetic_lengths
from wam_jax.errors import InputError

CONFIG = """
from wam_jax.config import default_config

def get_config():
    config = default_config()
    config.name = "tiny"
    config.data.store = {store!r}
    config.data.train_batch_size = 2
    config.data.val_batch_size = 2
    config.data.batching.mode = "packed"
    config.data.batching.bucket_pool_size = 4
    config.data.batching.max_compiled_shapes = 1
    config.policy.program = "joint"
    config.training.num_steps = 4
    config.validation.num_draws = 1
    sizes = dict(latent_channels=3, hidden_size=8, num_heads=1, head_dim=8, ffn_dim=8, text_dim=4, freq_dim=4)
    config.backbone.update(sizes)
    return config
"""


@pytest.fixture
def config_file(tmp_path) -> str:
    write_tiny_store(tmp_path / "store", lengths=(3, 5, 2, 4, 6, 2, 3, 4, 3))
    path = tmp_path / "config.py"
    path.write_text(CONFIG.format(store=str(tmp_path / "store")))
    return str(path)


def test_modes_are_measured_on_the_same_draws(config_file, tmp_path, capsys):
    out = tmp_path / "out.json"
    code = benchmark.main(["--config", config_file, "--modes", "padded,packed", "--steps", "2", "--out", str(out)])
    report = json.loads(out.read_text())
    padded, packed = report["modes"]
    assert code == 0
    assert report["losses_equal"]
    assert "equal to 0.0001 in all modes" in capsys.readouterr().out
    assert [padded["mode"], packed["mode"]] == ["padded", "packed"]
    assert padded["tokens_per_step"] == packed["tokens_per_step"] > 0
    assert padded["utilisation"] == pytest.approx(padded["tokens_per_step"] / padded["slots_per_step"])
    assert packed["step_seconds_median"] > 0
    assert packed["compiled_shapes"] == 1


def test_an_unknown_mode_is_refused(config_file):
    with pytest.raises(InputError, match="--modes = 'ragged': must be of strict, padded"):
        benchmark.main(["--config", config_file, "--modes", "padded,ragged"])


def test_strict_accumulates_single_samples_to_the_same_update(config_file):
    from wam_jax.config import load

    config = load(config_file, []).config
    strict = mode_config(config, "strict")
    assert (strict.data.train_batch_size, strict.training.gradient_accumulation_steps) == (1, 2)
    assert strict.data.val_batch_size == 1
    assert whole_pools(config, 3) == 4


def test_best_fit_reaches_the_density_that_the_documentation_states():
    results = {r.name: r for r in measure_packers(synthetic_lengths(60_000), batches=100)}
    assert results["best_fit"].utilisation > 0.985
    assert results["in_order"].utilisation < 0.85
    assert synthetic_lengths(1000).max() <= CAPACITY


def test_even_dealing_over_many_ranks_beats_dealing_in_order():
    in_order, even = measure_dealing(synthetic_lengths(60_000), ranks=64, updates=10)
    assert even.utilisation > 0.96 > 0.6 > in_order.utilisation
