"""Each rule of a configuration that needs no data, by its message."""

from collections.abc import Callable

import pytest

from wam_jax.config import load, names
from wam_jax.config.validate import SUPPORTED
from wam_jax.errors import InputError

File = Callable[..., str]


def refused(path: str, *overrides: str) -> str:
    with pytest.raises(InputError) as error:
        load(path, [f"--config.{override}" for override in overrides])
    return str(error.value)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("data.batching.mode=ragged", "must be one of 'strict', 'padded', 'bucket', 'packed'"),
        ("data.batching.max_tokens=100", "only mode 'packed' has a budget; unset it"),
        ("data.batching.max_tokens=0", "must be above 0"),
        ("data.batching.max_tokens=1.5", "must be an integer"),
        ("data.batching.packer=best_fit", "needs data.batching.max_tokens; unset it"),
        ("data.batching.bucket_pool_size=0", "must be above 0"),
        ("data.batching.pad_to_multiple_of=0", "must be above 0"),
        ("data.batching.drop_last_train=maybe", "must be true or false"),
        (
            "policy.sequence_contract=other",
            "must be one of 'default', 'context_frame', 'prefix_frame', 'rollout_parity",
        ),
        ("seed=-1", "seed = -1: must be at least 0 and below 2**32"),
        ("data.train_batch_size=0", "data.train_batch_size = 0: must be above 0"),
        ("data.num_workers=-1", "must not be negative"),
        ("data.split.val_fraction=1", "must be above 0 and below 1"),
        ("training.text_dropout=1.5", "must be between 0 and 1"),
        ("training.optimizer.beta2=1", "must be at least 0 and below 1"),
        ("training.optimizer.ema_decay=1", "must be above 0 and below 1"),
        ("training.optimizer.max_grad_norm=0", "must be above 0"),
        ("validation.report_sigma=0", "must be above 0 and at most 1"),
        ("training.optimizer.warmup_steps=11", "must not exceed training.num_steps 10"),
        ("training.optimizer.final_learning_rate=1", "must not exceed training.optimizer.learning_rate 0.0001"),
        ("training.optimizer.final_learning_rate=1e-5", "needs schedule 'cosine' or 'linear'"),
        ("backbone.head_dim=16", "every part must be even"),
        ("backbone.freq_dim=7", "must be even"),
        ("backbone.patch_size=(2,2,2)", "must be (1, height, width)"),
        ("data.sample_construction.mode=uniform_segment", "max_segment_frames = None: 'uniform_segment' needs"),
        ("data.sample_construction.max_segment_frames=9", "only mode 'uniform_segment' cuts"),
        ("trainer.mesh=(-1,-1)", "at most one -1"),
        ("trainer.mesh=(0,1)", "each a positive number of devices"),
    ],
)
def test_one_field_out_of_range(config_file: File, override: str, message: str) -> None:
    assert message in refused(config_file(), override)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("min_segment_frames=9", "max_segment_frames=8"), "must be between 2 and max_segment_frames 8"),
        (("max_segment_frames=8", "randomize_segment_length=true"), "needs the shortest length"),
        (("max_segment_frames=1",), "needs at least 2"),
    ],
)
def test_segment_lengths_must_agree(config_file: File, overrides: tuple[str, ...], message: str) -> None:
    group = "data.sample_construction."
    assert message in refused(config_file(), group + "mode=uniform_segment", *(group + each for each in overrides))


def test_the_table_of_what_is_supported_names_real_fields() -> None:
    assert set(SUPPORTED) <= set(names.schema())
