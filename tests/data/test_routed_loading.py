"""Routed training data: one stream for any number of devices, replayed on resume, strict rows of any objective."""

import itertools
from contextlib import closing
from typing import Any

import jax
import numpy as np
import pytest

from tests.support.runs import SEGMENTS_OF_3, tiny_config
from tests.support.stores import write_tiny_store
from wam_jax.data.loader import Step, TrainData
from wam_jax.data.storage.store import Store, open_store
from wam_jax.errors import InputError
from wam_jax.sequence import Objective

JOINT, FDM, IDM = Objective
LENGTHS = (3, 5, 6, 4, 7, 4, 3, 5)
SPLITS = ["train"] * 6 + ["val"] * 2
GJD: dict[str, Any] = {"program": "generalist_joint_denoising", "use_condition_latents": False}
CUT = SEGMENTS_OF_3 | {"sample_order_mode": "replacement"}
ROUTES = (
    ("real_demo", "joint", 0.6),
    ("real_demo", "action_conditioned_video", 0.1),
    ("real_demo", "video_conditioned_action", 0.1),
    ("counterfactual_dynamics", "action_conditioned_video", 0.1),
    ("counterfactual_dynamics", "video_conditioned_action", 0.1),
)
SHARES = np.array([weight for *_, weight in ROUTES])
ROUTING: dict[str, Any] = {"routes": ROUTES, "counterfactual_sources": ("branch",)}


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    path = tmp_path_factory.mktemp("routed") / "store"
    return open_store(write_tiny_store(path, LENGTHS, splits=SPLITS, sources=("lab", "branch")))


def train_data(store: Store, *, ranks: int = 1, group: int | None = None, **rooms: Any) -> TrainData:
    rooms = {"construction": CUT, "policy": GJD, "routing": ROUTING, "validation": {"num_draws": 10}} | rooms
    config = tiny_config(**rooms)
    return TrainData(config, store, rows=range(ranks), ranks=ranks, objective_group=group)


def take(data: TrainData, start: int, count: int) -> list[Step]:
    with closing(data.steps(start)) as steps:
        return list(itertools.islice(steps, count))


def stream(data: TrainData, draws: int) -> Any:
    """The first draws in the order of their positions."""
    parts = [data.planner.plan(step).draws for step in range(draws // data.draws_per_step)]
    flat = [part.transpose(0, 2, 1).reshape(-1) for part in parts]
    return [
        np.concatenate([getattr(part, name) for part in flat]) for name in ("epoch", "position", "route", "episode")
    ]


@pytest.mark.parametrize("group", [1, 4])
def test_routes_come_within_binomial_bounds(store, group):
    route = stream(train_data(store, group=group), 4000)[2]
    counts = np.bincount(route, minlength=5)
    assert np.all(np.abs(counts - 4000 * SHARES) < 4 * np.sqrt(4000 * group * SHARES * (1 - SHARES)))


def test_a_resumed_run_replays_its_routes(store):
    whole = take(train_data(store), 0, 9)
    for start in (0, 3, 7):
        resumed = take(train_data(store), start, 2)
        for one, other in zip(resumed, whole[start:], strict=False):
            assert jax.tree.all(jax.tree.map(np.array_equal, one.batches, other.batches))


def test_the_stream_does_not_depend_on_the_devices_a_run_goes_on_with(store):
    one: dict[str, Any] = {"data": {"train_batch_size": 2}}
    begun = train_data(store, ranks=2, **one)
    assert begun.objective_group == begun.contract()["objective_group"] == 2
    split: dict[str, Any] = {
        "data": {"train_batch_size": 1},
        "training": {"num_steps": 4, "gradient_accumulation_steps": 4},
    }
    resumed = train_data(store, ranks=1, group=begun.contract()["objective_group"], **split)
    assert resumed.contract() == begun.contract()
    for ours, theirs in zip(stream(resumed, 40), stream(begun, 40), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_the_ranks_of_a_step_share_their_routes(store):
    draws = train_data(store, ranks=4).planner.plan(1).draws
    assert (draws.objective == draws.objective[:, :1]).all()
    assert not (draws.episode == draws.episode[:, :1]).all()


def test_the_configuration_wins_over_the_number_of_ranks(store):
    assert train_data(store, ranks=4, routing=ROUTING | {"objective_group": 3}).objective_group == 3
    assert train_data(store, routing={}, policy={"program": "joint"}).contract()["objective_group"] is None


def test_an_epoch_is_as_long_as_the_longest_route_times_the_multiplier(store):
    items = {"lab": 1 + 4 + 5, "branch": 3 + 2 + 2}
    one: dict[str, Any] = {"data": {"train_batch_size": 1}}
    assert train_data(store, **one).draws_per_epoch == items["lab"]
    assert train_data(store, routing=ROUTING | {"length_multiplier": 2.5}, **one).draws_per_epoch == 25
    assert train_data(store, routing={"counterfactual_sources": ("branch",)}, **one).draws_per_epoch == items["lab"]


def test_strict_takes_conditional_and_joint_samples_in_one_row(store):
    routes = tuple((*route[:2], 0.2) for route in ROUTES)
    data = train_data(store, data={"train_batch_size": 8}, routing=ROUTING | {"routes": routes})
    samples = take(data, 0, 1)[0].batches[0].samples
    assert data.objectives == (JOINT, FDM, IDM)
    assert len(set(samples.objective.ravel().tolist())) == 3
    assert samples.num_frames.tolist() == [[3] * 8]
    given = samples.objective[0] > 0
    assert not samples.video_loss_mask[0, given, 0].any()
    assert not samples.action_mask[0, given, 0].any()


def test_validation_holds_every_route(store):
    data = train_data(store)
    draws = data.validation_draws.reshape(-1)
    assert np.bincount(draws.route[draws.present]).tolist() == [6, 1, 1, 1, 1]
    assert set(store.index.sources[draws.episode[draws.present]]) == {"lab", "branch"}


@pytest.mark.parametrize(
    ("rooms", "match"),
    [
        (
            {"routing": ROUTING | {"counterfactual_sources": ("none",)}},
            r"route counterfactual_\w+: source .* no train epis",
        ),
        ({"loss_range": {"loss_frame_start": 3}}, r"loss_range\.loss_frame_start = 3: leaves no supervised frame"),
        (
            {"construction": CUT | {"conditional_start": "history"}},
            r"strict'.*equal latent frames in all samples, found ep0 on real_joint: 3, .* on real_\w+: random",
        ),
        (
            {"policy": GJD | {"sequence_contract": "prefix_frame", "proprio_context_mode": "per_chunk_additive"}},
            r"strict'.*equal prefix frames .*found ep0 on real_action_conditioned_video: 0, ep0 on real_joint: 1",
        ),
    ],
)
def test_what_cannot_work_is_refused_when_the_data_is_opened(store, rooms, match):
    with pytest.raises(InputError, match=match):
        train_data(store, **rooms)
