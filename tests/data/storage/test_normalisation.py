"""Named scalings: what they make of values, and back."""

import dataclasses
import json

import numpy as np
import pytest

from wam_jax.data.storage.normalisation import Normalisation, fit_normalisation, read_limits, read_normalisation
from wam_jax.errors import InputError

VALUES = np.random.default_rng(0).normal([1.0, -5.0], [2.0, 0.5], size=(500, 2)).astype(np.float32)
LIMITS = ((-10.0, -8.0), (10.0, 0.0))


@pytest.fixture(params=["none", "gaussian", "quantiles", "joint_limits"])
def fitted(request):
    return fit_normalisation(request.param, [VALUES[:100], VALUES[100:]], limits=LIMITS)


def test_it_inverts(fitted):
    np.testing.assert_allclose(fitted.invert(fitted.apply(VALUES)), VALUES, rtol=0, atol=1e-5)


def test_it_survives_json(fitted):
    assert read_normalisation(json.loads(json.dumps(dataclasses.asdict(fitted))), where="x") == fitted


def test_its_statistics_are_those_before_scaling(fitted):
    np.testing.assert_allclose(fitted.statistics["mean"], VALUES.mean(0), rtol=1e-5)
    np.testing.assert_allclose(fitted.statistics["q99"], np.quantile(VALUES, 0.99, axis=0), rtol=1e-5)


def test_gaussian_has_mean_0_and_deviation_1():
    scaled = fit_normalisation("gaussian", [VALUES]).apply(VALUES)
    np.testing.assert_allclose(scaled.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(scaled.std(0), 1, atol=1e-5)


def test_quantiles_become_the_ends_and_are_clipped_if_asked():
    scaled = fit_normalisation("quantiles", [VALUES]).apply(VALUES)
    np.testing.assert_allclose(np.quantile(scaled, [0.01, 0.99], axis=0), [[-1, -1], [1, 1]], atol=1e-5)
    clipped = fit_normalisation("quantiles", [VALUES], clip=(-1.0, 1.0)).apply(VALUES)
    np.testing.assert_array_equal(clipped, np.clip(scaled, -1, 1))
    assert np.abs(scaled).max() > 1


def test_limits_become_the_ends():
    found = fit_normalisation("joint_limits", [VALUES], limits=LIMITS)
    np.testing.assert_allclose(found.apply(np.array(LIMITS)), [[-1, -1], [1, 1]])


def test_a_constant_dimension_is_not_scaled():
    constant = np.full((4, 1), 3.0)
    for mode in ("gaussian", "quantiles"):
        np.testing.assert_array_equal(fit_normalisation(mode, [constant]).apply(constant + 2), np.full((4, 1), 2))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"mode": "best", "episodes": [VALUES]}, "one of none, gaussian"),
        ({"mode": "gaussian", "episodes": []}, "values in the train split"),
        ({"mode": "gaussian", "episodes": [VALUES * np.nan]}, "finite"),
        ({"mode": "joint_limits", "episodes": [VALUES]}, "lower < upper"),
        ({"mode": "joint_limits", "episodes": [VALUES], "limits": LIMITS[::-1]}, "lower < upper"),
    ],
)
def test_what_cannot_be_fitted_is_refused(arguments, said):
    with pytest.raises(InputError, match=said):
        fit_normalisation(**arguments)


def test_other_dimensions_are_refused():
    with pytest.raises(InputError, match="2 dimensions"):
        fit_normalisation("gaussian", [VALUES]).apply(VALUES[:, :1])


def test_limits_are_read(tmp_path):
    path = tmp_path / "limits.json"
    path.write_text('{"actions": {"lower": [0, 1], "upper": [2, 3]}}')
    assert read_limits(path, "actions") == ((0, 1), (2, 3))
    for field in ("state", "actions"):
        path.write_text("{}")
        with pytest.raises(InputError, match="a number per dimension"):
            read_limits(path, field)


def test_none_changes_nothing():
    assert Normalisation("none").apply(VALUES) is VALUES
