"""Routes: what a configuration makes of them, which episodes each draws from, what its draws say of themselves."""

import numpy as np
import pytest

from tests.data.indexes import equal, make_index, make_law
from tests.support.runs import tiny_config
from wam_jax.data.batching.planner import validation_draws
from wam_jax.data.drawing.routing import Route, active_routes, objectives_of
from wam_jax.data.drawing.samplers import RoutedReplacement, Stretch
from wam_jax.errors import InputError
from wam_jax.keys import Phase
from wam_jax.sequence import Objective

JOINT, FDM, IDM = Objective
INDEX = make_index([4, 9, 6, 5, 7], sources=["lab", "branch", "lab", "branch", "home"])
GJD = {"program": "generalist_joint_denoising"}
ROUTES = (
    ("real_demo", "joint", 3.0),
    ("real_demo", "action_conditioned_video", 0.0),
    ("real_demo", "video_conditioned_action", 1.0),
    ("counterfactual_dynamics", "action_conditioned_video", 1.0),
)
ROUTING = {"routes": ROUTES, "counterfactual_sources": ("branch", "other")}


def law(routing=None, policy=None, **rooms):
    return make_law(tiny_config(routing=ROUTING | (routing or {}), policy=policy or GJD, **rooms), INDEX)


def draws(rules, count: int = 600, *, group: int = 1):
    sampler = RoutedReplacement(0, Phase.TRAIN, rules.route_ends, rules.shares, group)
    return rules.draws(Stretch(0, 0, count), sampler.items(0, 0, count))


@pytest.mark.parametrize(
    ("program", "objective"),
    [("joint", JOINT), ("generalist_joint_denoising", JOINT), ("forward_dynamics", FDM), ("inverse_dynamics", IDM)],
)
def test_a_program_without_routes_implies_one(program, objective):
    assert active_routes(tiny_config(policy={"program": program})) == (Route("real_demo", objective, 1.0),)


def test_routes_of_weight_zero_are_left_out_and_shares_add_up_to_one():
    routes = active_routes(tiny_config(routing=ROUTING, policy=GJD))
    assert [route.share for route in routes] == [0.6, 0.2, 0.2]
    names = ["real_joint", "real_video_conditioned_action", "counterfactual_action_conditioned_video"]
    assert [route.name for route in routes] == names
    assert objectives_of(routes) == (JOINT, FDM, IDM)


def test_branches_are_drawn_by_their_routes_alone():
    found = draws(law())
    branch = np.isin(INDEX.sources[found.episode].astype(str), ["branch"])
    np.testing.assert_array_equal(branch, found.objective == FDM)
    assert set(found.episode) == {0, 1, 2, 3, 4}


def test_an_unrouted_program_never_sees_a_branch():
    rules = law({"routes": ()}, {"program": "joint"})
    assert set(rules.space.episodes) == {0, 2, 4}


def test_every_draw_is_stamped_with_where_it_came_from():
    rules = law()
    found = draws(rules)
    stamps = rules.provenance(found)
    objectives = [Objective(value).label for value in found.objective]
    assert stamps["objective"].tolist() == objectives
    names = np.array([route.name for route in rules.routes])[found.route]
    np.testing.assert_array_equal(stamps["route"], names)
    assert {source for source, name in zip(stamps["source"], names, strict=True) if name == "real_joint"} == {
        "real_demo"
    }


def test_draws_of_each_objective_are_what_it_demands():
    found = draws(law())
    conditional = found.objective != JOINT
    assert set(found.window_size[conditional]) == {3}
    assert set(found.chunk_origin[conditional]) == set(found.history_frames[conditional]) == {1}
    assert set(found.singleton_frame[conditional]) == {0}
    assert set(found.singleton_frame[~conditional]) == {-1}
    assert set(found.chunk_origin[~conditional]) == {0}


def test_routes_do_not_depend_on_the_stretch_they_are_drawn_in():
    rules = law()
    sampler = RoutedReplacement(0, Phase.TRAIN, rules.route_ends, rules.shares, 3)
    whole = rules.draws(Stretch(0, 0, 50), sampler.items(0, 0, 50))
    part = rules.draws(Stretch(0, 17, 20), sampler.items(0, 17, 20))
    assert equal(part, whole[17:37])


def test_demonstrations_may_be_observed_behind_their_history_and_branches_never_are():
    found = draws(law(construction={"conditional_start": "history"}))
    real = found.objective == IDM
    assert found.segment_start[real].max() > 0
    np.testing.assert_array_equal(found.frame_shift, found.segment_start)
    assert np.all(
        found.segment_start[real] + found.num_frames[real] == INDEX.extents["video_latents"][found.episode[real]]
    )
    assert np.all(found.num_frames >= 2)
    assert not found.segment_start[~real].any()


@pytest.mark.parametrize("randomize", [True, False])
def test_bounds_of_cut_samples_hold(randomize):
    construction = {"conditional_start": "history", "randomize_geometry": randomize}
    rules = law(construction=construction, policy=GJD | {"video_prefix_frames": 3})
    found = draws(rules)
    for route in range(3):
        rows, drawn = rules.row_route == route, found.num_frames[found.route == route]
        assert rules.shortest()[rows].min() <= drawn.min()
        assert drawn.max() <= rules.longest()[rows].max()
        if not randomize:
            assert set(rules.shortest()[rows]) == set(rules.longest()[rows]) == set(drawn)


def test_validation_gives_every_route_its_share():
    found = validation_draws(law(), 10, ranks=1, microbatch=1).reshape(-1)
    assert np.bincount(found.route).tolist() == [6, 2, 2]
    assert found.position.tolist() == list(range(10))


@pytest.mark.parametrize(("phase", "split"), [(Phase.TRAIN, "train"), (Phase.VALIDATION, "validation")])
def test_a_route_without_episodes_is_refused(phase, split):
    config = tiny_config(routing=ROUTING | {"counterfactual_sources": ("nothing",)}, policy=GJD)
    match = rf"route counterfactual_\w+: source = 'counterfactual_dynamics': no {split} episode .*branch, home, lab"
    with pytest.raises(InputError, match=match):
        make_law(config, INDEX, phase)
