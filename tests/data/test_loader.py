"""Training data end to end: random access, exact resume, one stream for all processes, errors with names."""

import itertools
import json
from contextlib import closing
from typing import Any

import jax
import numpy as np
import pytest

from tests.support.runs import SEGMENTS_OF_3, tiny_config
from tests.support.stores import rewrite_episode, write_tiny_store
from wam_jax.data.loader import Step, TrainData
from wam_jax.data.storage.store import Store, open_store
from wam_jax.errors import InputError

LENGTHS = (3, 5, 6, 4, 7, 4, 3)
SPLITS = ["train"] * 5 + ["val"] * 2


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    return open_store(write_tiny_store(tmp_path_factory.mktemp("loader") / "store", LENGTHS, splits=SPLITS))


def train_data(store: Store, *, rows: range = range(1), ranks: int | None = None, **rooms: Any) -> TrainData:
    rooms = {"construction": SEGMENTS_OF_3, "validation": {"num_draws": 3}} | rooms
    return TrainData(tiny_config(**rooms), store, rows=rows, ranks=ranks)


def take(data: TrainData, start: int, count: int) -> list[Step]:
    with closing(data.steps(start)) as steps:
        return list(itertools.islice(steps, count))


def same(left: Step, right: Step) -> bool:
    leaves = zip(jax.tree.leaves(left.batches), jax.tree.leaves(right.batches), strict=True)
    return left.counts == right.counts and all(np.array_equal(a, b) for a, b in leaves)


WEIGHTED = {"sample_order_mode": "replacement", "replacement_weights": "task", "task_weights": (("reach", 3.0),)}


@pytest.mark.parametrize("order", [{}, {"sample_order_mode": "replacement"}, WEIGHTED])
def test_resuming_at_any_step_equals_running_on(store, order):
    construction = SEGMENTS_OF_3 | order
    whole = take(train_data(store, construction=construction), 0, 14)
    for start in range(12):
        resumed = take(train_data(store, construction=construction), start, 3)
        assert all(map(same, resumed, whole[start:])), start


def test_steps_are_the_plan_of_their_number(store):
    data = train_data(store, training={"num_steps": 9, "gradient_accumulation_steps": 2})
    for step, (batches, _) in enumerate(take(data, 4, 3), 4):
        draws = data.planner.plan(step).draws
        found = [batch.samples.draw[..., 2] for batch in batches]
        np.testing.assert_array_equal(np.stack(found), draws.position)


def test_processes_share_one_stream(store):
    whole = take(train_data(store, rows=range(3)), 1, 2)
    parts = [take(train_data(store, rows=range(r, r + 1), ranks=3), 1, 2) for r in range(3)]
    for step in range(2):
        for r in range(3):
            rows = jax.tree.map(lambda a, r=r: a[r : r + 1] if a.ndim else a, whole[step].batches)
            assert same(Step(rows, whole[step].counts), parts[r][step])


def test_the_epoch_visits_every_slot(store):
    data = train_data(store, data={"train_batch_size": 1})
    found = {tuple(step.batches[0].samples.video_latents.ravel()[:6]) for step in take(data, 0, data.draws_per_epoch)}
    assert data.draws_per_epoch == 1 + 3 + 4 + 2 + 5 == len(found)


def test_counts_cover_all_ranks(store):
    data = train_data(store, rows=range(1), ranks=2)
    counts = take(data, 0, 1)[0].counts
    assert counts.samples == data.draws_per_step == 4
    assert counts.video_tokens == counts.video_slots == 4 * 2 * 3
    assert counts.utilisation == 1


def test_validation_is_fixed_and_keeps_its_incomplete_batch(store):
    data = train_data(store)
    first, again = data.validation(), train_data(store).validation()
    assert [batch.samples.valid.tolist() for batch in first] == [[[True, True]], [[True, False]]]
    assert all(map(np.array_equal, jax.tree.leaves(first), jax.tree.leaves(again)))
    assert data.validation() is first


def test_validation_never_shows_a_training_episode(store):
    data = train_data(store, validation={"num_draws": 20})
    assert set(data.validation_draws.episode.ravel()) == {5, 6}
    assert set(data.planner.law.space.episodes) == set(range(5))


def test_clean_latents_travel_only_where_they_are_used(store):
    assert take(train_data(store), 0, 1)[0].batches[0].samples.clean_latents is not None
    unused = train_data(store, policy={"use_condition_latents": False})
    assert take(unused, 0, 1)[0].batches[0].samples.clean_latents is None


def test_the_contract_is_what_the_stream_depends_on(store):
    base = train_data(store).contract()
    assert json.loads(json.dumps(base)) == base
    split = train_data(store, data={"train_batch_size": 1}, training={"num_steps": 4, "gradient_accumulation_steps": 2})
    assert split.contract() == base
    changes: list[dict[str, Any]] = [
        {"seed": 1},
        {"construction": SEGMENTS_OF_3 | {"chunk_size": 1}},
        {"construction": SEGMENTS_OF_3 | WEIGHTED},
        {"data": {"train_batch_size": 3}},
        {"training": {"num_steps": 4, "text_dropout": 0.1}},
    ]
    for change in changes:
        assert train_data(store, **change).contract() != base


def test_weights_of_tasks_are_a_part_of_the_contract_in_no_order(store):
    both = (("reach", 3.0), ("push", 2.0))
    contracts = [
        train_data(store, construction=SEGMENTS_OF_3 | WEIGHTED | {"task_weights": weights}).contract()
        for weights in (both, both[::-1], (("reach", 3.0),))
    ]
    assert contracts[0] == contracts[1] == json.loads(json.dumps(contracts[0])) != contracts[2]


def test_a_task_gets_the_draws_that_its_weight_says(store):
    data = train_data(store, construction=SEGMENTS_OF_3 | WEIGHTED)
    episodes = np.concatenate([data.planner.plan(step).draws.episode.ravel() for step in range(400)])
    share = np.mean(store.index.tasks[episodes] == "reach")
    assert abs(share - 3 / 4) < 4 * np.sqrt(3 / 16 / 800)


def test_padded_rows_take_unequal_episodes(store):
    data = train_data(store, construction={}, batching={"mode": "padded", "pad_to_multiple_of": 4})
    assert data.shapes.ladder.rungs[-1].video_slot_frames == 8
    counts = take(data, 0, 1)[0].counts
    assert 0 < counts.video_tokens < counts.video_slots == 2 * 2 * 8


@pytest.mark.parametrize(
    ("rooms", "match"),
    [
        ({"construction": {}}, r"strict'.*ep0: 3.*ep1: 5"),
        ({"data": {"train_batch_size": 16}}, r"draws of an epoch = 15: one update takes 16"),
        ({"batching": {"drop_last_train": False}}, r"drop_last_train = False: an epoch of 15"),
        ({"split": {"source": "hash", "val_fraction": 1e-9}}, r"split 'val' = 0"),
        ({"policy": {"program": "joint", "proprio_context_mode": "per_chunk_additive"}, "backbone": {"text_dim": 5}},
         r"backbone\.text_dim = 5"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_when_the_data_is_opened(store, rooms, match):
    with pytest.raises(InputError, match=match):
        train_data(store, **rooms)


def bad_store(path) -> Store:
    written = write_tiny_store(path / "store", LENGTHS, splits=SPLITS, payload="safetensors")
    rewrite_episode(written, 4, video_latents=np.full((3, 7, 2, 2), np.nan, np.float16))
    return open_store(written)


def test_a_bad_record_is_raised_with_its_sample(tmp_path):
    with pytest.raises(InputError, match=r"^sample ep4: video_latents = nan"):
        take(train_data(bad_store(tmp_path)), 0, 7)


@pytest.mark.slow
def test_worker_processes_change_nothing_and_raise_with_the_sample(tmp_path, store):
    rooms: dict[str, Any] = {"training": {"num_steps": 4, "gradient_accumulation_steps": 2}}
    workers: dict[str, Any] = {"data": {"train_batch_size": 1, "num_workers": 2, "prefetch": 4}}
    found = take(train_data(store, **rooms, **workers), 3, 5)
    wanted = take(train_data(store, **rooms, data={"train_batch_size": 1}), 3, 5)
    assert all(map(same, found, wanted))
    with pytest.raises(InputError, match=r"^sample ep4: video_latents = nan"):
        take(train_data(bad_store(tmp_path), **workers), 0, 15)
