"""Everything that batched training does not support is refused, with its name and the way out, before a model exists.

One line of `REFUSED` for each rule: what the guide of batching says, the overrides and the store that break it, and
what the command answers. The base is a small experiment that trains.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.support.stores import rewrite_index, tiny_arrays, write_tiny_store
from tests.training.commands import make_experiment
from wam_jax import train
from wam_jax.errors import InputError
from wam_jax.policies.dual_expert import DualExpertPolicy
from wam_jax.training.locate import CheckpointRef
from wam_jax.training.record import check_contract

LENGTHS = (3, 5, 4, 4, 6, 5, 4, 3)
SPLITS = ["train"] * 6 + ["val"] * 2
PADDED = "data.batching.mode=padded"
PACKED = "data.batching.mode=packed"
BUCKET = "data.batching.mode=bucket"
WHOLE = ("data.sample_construction.mode=full_segment", "data.sample_construction.max_segment_frames=none")
ROUTED = (
    "policy.program=generalist_joint_denoising",
    "data.sample_construction.sample_order_mode=replacement",
    "data.routing.routes=(('real_demo','joint',1),('real_demo','video_conditioned_action',1))",
)


def text(*tokens: int) -> dict[str, np.ndarray]:
    names = ("negative_text_context", "text_context")
    return {name: np.zeros((count, 4), np.float32) for name, count in zip(names, tokens, strict=False)}


def episode(**sizes: Any) -> dict[str, np.ndarray]:
    names = ("video_latents", "condition_latents", "actions", "action_mask")
    return {name: value for name, value in tiny_arrays(5, **sizes).items() if name in names}


def one_frame(store: Path) -> None:
    rewrite_index(store, "extent_video_latents", 1, 1)


def ragged_actions(store: Path) -> None:
    rewrite_index(store, "extent_actions", 1, 9)


def without_condition_latents(store: Path) -> None:
    rewrite_index(store, "extent_condition_latents", 1, None)


class Rule(NamedTuple):
    """What is said, what breaks it (options, a damaged store, a store with other arrays in `ep1`), what is answered."""

    said: str
    overrides: tuple[str, ...]
    message: str
    damage: Callable[[Path], None] | None = None
    arrays: dict[str, np.ndarray] | None = None


REFUSED = [
    # The modes, adapters and loss weights that there are.
    Rule("a known mode", ("data.batching.mode=ragged",), "must be one of 'strict', 'padded', 'bucket', 'packed'"),
    Rule(
        "latents only", ("trainer.batch_adapter=rgb", PADDED), "trainer.batch_adapter = 'rgb': must be one of 'latents'"
    ),
    Rule(
        "no loss weights",
        ("training.sample_loss_weight_mode=tokens", PADDED),
        "training.sample_loss_weight_mode = 'tokens': must be one of 'none'",
    ),
    # Shapes within a microbatch.
    Rule("strict takes equal shapes", WHOLE, "'strict': needs equal latent frames in all samples, found ep2: 4"),
    Rule(
        "strict takes a field in all samples or none",
        ("data.verify_up_to_bytes=0",),
        "'strict': needs equal condition latents in all samples, found ep0: present, ep1: absent",
        without_condition_latents,
    ),
    Rule(
        "T >= 2",
        (PADDED, *WHOLE),
        "sample ep1: video_latents = 1: latent frames; at least 2 are needed",
        one_frame,
    ),
    Rule("channels agree", (PADDED,), "(4, 5, 2, 2): axis channel is 3 in this store", arrays=episode(channels=4)),
    Rule("heights agree", (PADDED,), "(3, 5, 4, 2): axis height is 2 in this store", arrays=episode(height=4)),
    Rule("widths agree", (PADDED,), "(3, 5, 2, 4): axis width is 2 in this store", arrays=episode(width=4)),
    Rule("action sizes agree", (PADDED,), "(10, 7): axis action_dim is 2 in this store", arrays=episode(action_dim=7)),
    Rule(
        "actions are aligned with frames",
        (PADDED,),
        "sample ep1: actions = 9: must be 2 x latent frames",
        ragged_actions,
    ),
    Rule("actions are aligned with frames, when written", (PADDED,), "2 x latent frames", arrays=episode(slots=3)),
    Rule(
        "a mask has the shape of its actions",
        (PADDED,),
        "sample ep1: action_mask = 8: 10 rows for 5 latent frames",
        arrays={"action_mask": np.ones((8, 2), np.float32)},
    ),
    Rule(
        "negative text needs positive text",
        (PADDED,),
        "sample ep1: negative_text_context = 2: must have as many tokens as text_context",
        arrays=text(2),
    ),
    Rule(
        "negative text is as long as positive text",
        (PADDED,),
        "sample ep1: negative_text_context = 2: must have as many tokens as text_context",
        arrays=text(2, 3),
    ),
    # Sizes of a microbatch, of an epoch, of a pool.
    Rule("a microbatch has samples", ("data.train_batch_size=0", PADDED), "data.train_batch_size = 0: must be above 0"),
    Rule("a validation batch has samples", ("data.val_batch_size=0",), "data.val_batch_size = 0: must be above 0"),
    Rule(
        "an epoch has an update",
        ("data.train_batch_size=64", PADDED),
        "draws of an epoch = 15: one update takes 64 = data.train_batch_size 64 x ranks 1",
    ),
    Rule(
        "a kept tail is whole microbatches",
        ("data.batching.drop_last_train=false", PADDED),
        "drop_last_train = False: an epoch of 15 draws must be a multiple of 2 = data.train_batch_size 2 x ranks 1",
    ),
    Rule("a tail is kept or not", ("data.batching.drop_last_train=3", PADDED), "must be true or false"),
    Rule("a pool has samples", ("data.batching.bucket_pool_size=0", BUCKET), "bucket_pool_size = 0: must be above 0"),
    Rule("a pool is a whole number", ("data.batching.bucket_pool_size=1.5", BUCKET), "= 1.5: must be an integer"),
    Rule(
        "a multiple is positive",
        ("data.batching.pad_to_multiple_of=0", PADDED),
        "pad_to_multiple_of = 0: must be above 0",
    ),
    Rule("a multiple is a number", ("data.batching.pad_to_multiple_of=true", PADDED), "= 'true': must be an integer"),
    # Order and budgets.
    Rule("routes fix the order", (BUCKET, *ROUTED), "= 'bucket': routes fix who trains which objective when"),
    Rule("only packed has a budget", (PADDED, "data.batching.max_tokens=99"), "only mode 'packed' has a budget"),
    Rule("a budget is positive", (PACKED, "data.batching.max_tokens=0"), "max_tokens = 0: must be above 0"),
    Rule(
        "a budget is a whole number", (PACKED, "data.batching.max_tokens=9.5"), "max_tokens = 9.5: must be an integer"
    ),
    Rule("a packer needs a budget", (PACKED, "data.batching.packer=best_fit"), "needs data.batching.max_tokens"),
    Rule(
        "a budget holds every sample",
        (PACKED, *WHOLE, "data.batching.max_tokens=35"),
        "max_tokens = 35: sample ep4 alone costs 36 tokens; raise it to that or more",
    ),
    # Starts.
    Rule("as many devices as expected", ("--expected-world-size=4",), "--expected-world-size = 4: 1 devices are there"),
    Rule("one way to start", ("--resume-from=a", "--initialize-weights-from=b"), "excludes --initialize-weights-from"),
]


def start(directory: Path, *overrides: str, damage: Any = None, arrays: dict[str, np.ndarray] | None = None) -> None:
    """Runs the command on the experiment."""
    config, workdir, store = make_experiment(directory), directory / "run", directory / "store"
    if damage is not None:
        damage(store)
    if arrays is not None:
        store = write_tiny_store(directory / "other", LENGTHS, splits=SPLITS, overrides={1: arrays})
    words = [word if word.startswith("--") else f"--config.{word}" for word in (*overrides, f"data.store={store}")]
    train.main(["--config", str(config), "--workdir", str(workdir), *words])


@pytest.mark.parametrize("rule", REFUSED, ids=lambda rule: rule.said)
def test_what_is_not_supported_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: Rule) -> None:
    monkeypatch.setattr("wam_jax.training.run.first_state", pytest.fail)
    with pytest.raises(InputError) as error:
        start(tmp_path, *rule.overrides, damage=rule.damage, arrays=rule.arrays)
    assert rule.message in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("mode", ["padded", "bucket", "packed"])
def test_an_architecture_without_the_hook_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setattr("wam_jax.training.run.first_state", pytest.fail)
    monkeypatch.setattr(DualExpertPolicy, "supported_batching_modes", frozenset({"strict"}))
    with pytest.raises(InputError, match=f"data.batching.mode = '{mode}': DualExpertPolicy executes: strict"):
        start(tmp_path, f"data.batching.mode={mode}")


class ReachedError(Exception):
    """Every check was passed."""


@pytest.mark.parametrize(
    "overrides",
    [(), (PADDED, *WHOLE), (BUCKET, *WHOLE), (PACKED, *WHOLE), (PACKED, *WHOLE, "data.batching.max_tokens=36")],
)
def test_what_is_refused_differs_from_what_trains_in_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overrides: tuple[str, ...]
) -> None:
    """The experiment passes every check in every mode, up to where parameters are made."""

    def reached(*_: Any, **__: Any) -> None:
        raise ReachedError

    monkeypatch.setattr("wam_jax.training.run.first_state", reached)
    with pytest.raises(ReachedError):
        start(tmp_path, *overrides, arrays=text(4, 4))


def test_another_recipe_of_buckets_is_no_continuation(tmp_path: Path) -> None:
    ref = CheckpointRef(tmp_path, 3, "--resume-from")
    meta = {"data_contract": {"seed": 0, "bucket": {"pool": 128, "ranks": 2}}}
    check_contract(ref, meta, {"seed": 0, "bucket": {"pool": 128, "ranks": 2}})
    for own, message in (
        ({"pool": 64, "ranks": 2}, "bucket.pool was 128 and is 64"),
        (None, "bucket.pool was 128 and is None"),
    ):
        with pytest.raises(InputError, match=message):
            check_contract(ref, meta, {"seed": 0, "bucket": own})
