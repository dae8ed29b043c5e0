"""Sums and means over samples: of all, and of each objective."""

from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from wam_jax.decode.aggregate import means_over_samples, sums_over_samples
from wam_jax.sequence import Objective

JOINT, FDM, IDM = Objective
VALID = np.array([[True, True, False], [True, True, True]])
OBJECTIVE = np.array([[0, 1, 1], [0, 0, 1]])
LOSSES: Any = {"loss": np.array([[1.0, 2.0, np.nan], [3.0, 5.0, 8.0]]), "action_mse": np.ones((2, 3))}


def sums(objectives=tuple(Objective), rows=slice(None)) -> dict[str, Any]:
    samples: Any = SimpleNamespace(valid=VALID[rows], objective=OBJECTIVE[rows])
    return sums_over_samples({name: value[rows] for name, value in LOSSES.items()}, samples, objectives)


def test_every_sample_weighs_the_same_and_empty_slots_nothing():
    means = means_over_samples(sums())
    assert means["loss"] == (1 + 2 + 3 + 5 + 8) / 5
    assert means["count"] == 5


def test_each_objective_has_the_mean_of_its_own_samples():
    means = means_over_samples(sums())
    assert means["joint/loss"] == 3
    assert means["action_conditioned_video/loss"] == 5
    assert (means["joint/count"], means["action_conditioned_video/count"]) == (3, 2)


@pytest.mark.parametrize("where", [dict, jax.device_get])
def test_an_objective_without_samples_has_no_mean(where):
    means = means_over_samples(where(sums()))
    assert means["video_conditioned_action/count"] == 0
    assert np.isnan(means["video_conditioned_action/loss"])


def test_names_depend_on_the_run_and_not_on_the_batch():
    assert sums(rows=slice(0, 1)).keys() == sums().keys()
    assert set(sums((FDM, JOINT))) == {
        f"{group}{name}" for group in ("", "joint/", "action_conditioned_video/") for name in (*LOSSES, "count")
    }


def test_one_objective_is_not_said_twice():
    assert set(sums((IDM,))) == {"loss", "action_mse", "count"}


def test_sums_of_parts_add_up():
    parts = [sums(rows=slice(r, r + 1)) for r in range(2)]
    added = {name: parts[0][name] + parts[1][name] for name in parts[0]}
    jax.tree.map(np.testing.assert_array_equal, means_over_samples(added), means_over_samples(sums()))
