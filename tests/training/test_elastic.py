"""Which other ways of splitting an update go on with the same draws, and what is said about those that do not."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tests.support.runs import tiny_config
from tests.support.stores import write_tiny_store
from wam_jax.data.loader import TrainData
from wam_jax.data.storage.store import Store, open_store
from wam_jax.errors import InputError
from wam_jax.training.locate import CheckpointRef
from wam_jax.training.phases import DataPhase
from wam_jax.training.record import check_contract
from wam_jax.training.run import draws_by_update

REF = CheckpointRef(Path("/r/checkpoints"), 4, "--resume-from")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return open_store(write_tiny_store(tmp_path_factory.mktemp("data") / "store", (3, 5, 2, 4) * 8))


def data_of(store: Store, mode: str, ranks: int, microbatch: int, accumulation: int, **changes: Any) -> TrainData:
    config = tiny_config(
        data={"train_batch_size": microbatch},
        training={"gradient_accumulation_steps": accumulation},
        construction={"chunk_size": 3},
        batching={"mode": mode, "bucket_pool_size": 6},
    )
    return TrainData(dataclasses.replace(config, **changes), store, rows=range(ranks))


def contract(*split: Any, **changes: Any) -> dict[str, Any]:
    return data_of(*split, **changes).contract()


@pytest.mark.parametrize("mode", ["padded", "packed"])
@pytest.mark.parametrize("split", [(2, 6, 2), (8, 3, 1), (4, 3, 2), (1, 24, 1)])
def test_the_same_effective_batch_goes_on(store: Store, mode: str, split: tuple[int, int, int]) -> None:
    check_contract(REF, {"data_contract": contract(store, mode, 4, 6, 1)}, contract(store, mode, *split))


def test_another_effective_batch_is_refused_with_the_ways_on(store: Store) -> None:
    with pytest.raises(InputError) as error:
        check_contract(REF, {"data_contract": contract(store, "padded", 4, 6, 1)}, contract(store, "padded", 2, 6, 1))
    said = str(error.value)
    assert "draws_per_step was 24 and is 12" in said
    assert "data.train_batch_size x training.gradient_accumulation_steps x devices must be 24)" in said
    assert "--new-data-phase" in said
    assert "--initialize-weights-from" in said


@pytest.mark.parametrize(
    ("split", "named"),
    [
        ((2, 6, 2), ("bucket.accumulation was 1 and is 2", "bucket.ranks was 4 and is 2")),
        ((4, 3, 2), ("bucket.accumulation was 1 and is 2", "bucket.microbatch was 6 and is 3")),
    ],
)
def test_buckets_are_bound_to_their_split(store: Store, split: tuple[int, int, int], named: tuple[str, ...]) -> None:
    with pytest.raises(InputError) as error:
        check_contract(REF, {"data_contract": contract(store, "bucket", 4, 6, 1)}, contract(store, "bucket", *split))
    said = str(error.value)
    assert all(difference in said for difference in named)
    assert "bucket_pool_size 6, data.train_batch_size 6, training.gradient_accumulation_steps 1, devices 4)" in said


def test_leaving_buckets_is_told_what_they_need(store: Store) -> None:
    with pytest.raises(InputError, match=r"bucket mode needs .*devices 4\)"):
        check_contract(REF, {"data_contract": contract(store, "bucket", 4, 6, 1)}, contract(store, "padded", 4, 6, 1))


def test_other_differences_say_nothing_of_the_split(store: Store) -> None:
    before = contract(store, "padded", 4, 6, 1)
    with pytest.raises(InputError, match=r"seed was 1 and is 0\); restore them, or keep"):
        check_contract(REF, {"data_contract": before | {"seed": 1}}, before)


def test_the_rungs_are_no_part_of_it(store: Store) -> None:
    wide, narrow = (tiny_config(batching={"mode": "packed", "max_compiled_shapes": n}).data for n in (1, 4))
    before, after = (
        contract(store, "packed", 4, 6, 1, data=dataclasses.replace(data, train_batch_size=6))
        for data in (wide, narrow)
    )
    check_contract(REF, {"data_contract": before}, after)


@pytest.mark.parametrize("mode", ["padded", "packed", "bucket"])
def test_draws_of_an_update_are_named_where_they_are_a_stretch_of_the_stream(store: Store, mode: str) -> None:
    data, phase = data_of(store, mode, 2, 3, 1), DataPhase(1, 0, 5)
    named, drawn = draws_by_update(data, phase), data.planner.plan(2 + phase.shift).draws
    places = sorted((drawn.epoch * data.draws_per_epoch + drawn.position).flatten().tolist())
    stretch = list(range(places[0], places[0] + data.draws_per_step))
    assert (places == stretch) is (mode != "bucket")
    assert (list(named(3)) if named else None) == (None if mode == "bucket" else places)
