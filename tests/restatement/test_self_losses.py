"""The oracle's losses and metrics against cases worked out by hand."""

from typing import Any

import numpy as np
import pytest

from tests.restatement import losses, prepare
from tests.restatement.generators import small_sample
from tests.restatement.params import Sizes
from tests.restatement.sample import Rules


def targets_of(**rules: Any) -> tuple[losses.Target, losses.Target]:
    sample = small_sample(Rules(program="joint", **rules), masked_actions=False)
    return losses.targets(prepare.prepare(sample, patch=Sizes().patch), sample.rules)


def terms_when_off_by(error: float, **rules: Any) -> dict[str, float]:
    video, action = targets_of(**rules)
    terms = losses.decode((video.velocity + error, action.velocity + error), video, action)
    return {name: float(term) for name, term in terms.items()}


def test_masked_slots_dilute_the_action_loss() -> None:
    velocity, mask = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 2.0]]), np.array([[1, 1], [0, 0], [0, 1]])
    loss = losses.action_loss(velocity, np.zeros((3, 2)), mask, np.array([2.0, 5.0, 3.0]))
    assert float(loss) == pytest.approx((2 * (1 + 4) / 2 + 0 + 3 * 4) / 3)


def test_video_loss_is_normalised_by_supervised_frames() -> None:
    error = np.array([[[[1.0, 2.0]], [[3.0, 4.0]], [[5.0, 6.0]]]])
    loss = losses.video_loss(error, 0 * error, np.array([0, 1, 1]), np.array([9.0, 2.0, 0.5]))
    assert float(loss) == pytest.approx((2 * 25 + 0.5 * 61) / (2 * 2))


def test_nothing_supervised_is_no_loss() -> None:
    ones = np.ones((1, 3, 1, 2))
    assert float(losses.video_loss(ones, 0 * ones, np.zeros(3), np.ones(3))) == 0
    assert float(losses.action_loss(np.ones((2, 2)), np.zeros((2, 2)), np.zeros((2, 2)), np.ones(2))) == 0


def test_action_mse_is_pooled_over_the_mask() -> None:
    mse = losses.action_mse(np.array([[1.0, 9.0], [2.0, 3.0]]), np.zeros((2, 2)), np.array([[1.0, 0.0], [1.0, 1.0]]))
    assert float(mse) == pytest.approx((1 + 4 + 9) / 3)


def test_true_velocity_has_no_loss_and_restores_the_sample() -> None:
    assert max(terms_when_off_by(0.0).values()) < 1e-12


def test_unit_error_costs_the_mean_weight_and_the_mean_squared_sigma() -> None:
    video, action = targets_of(history_frames=1)
    terms = terms_when_off_by(1.0, history_frames=1)
    assert terms["video_diffusion_loss"] == pytest.approx(video.weight[1:].mean(), rel=1e-6)
    assert terms["action_diffusion_loss"] == pytest.approx(action.weight.mean(), rel=1e-6)
    assert terms["latent_mse"] == pytest.approx((video.sigma[1:] ** 2).mean(), rel=1e-6)
    assert terms["action_mse"] == pytest.approx((action.sigma**2).mean(), rel=1e-6)


def test_total_is_weighted() -> None:
    terms = terms_when_off_by(1.0, action_loss_weight=3.0, latent_loss_weight=0.5)
    assert terms["weighted_action_diffusion_loss"] == pytest.approx(3 * terms["action_diffusion_loss"], rel=1e-6)
    assert terms["weighted_video_diffusion_loss"] == pytest.approx(terms["video_diffusion_loss"] / 2, rel=1e-6)
    parts = terms["weighted_action_diffusion_loss"] + terms["weighted_video_diffusion_loss"]
    assert terms["joint_loss"] == pytest.approx(parts, rel=1e-6)


def test_disabled_latent_objective_silences_the_video() -> None:
    terms = terms_when_off_by(1.0, latent_objective=False)
    assert terms["video_diffusion_loss"] == terms["latent_mse"] == 0
    assert terms["joint_loss"] == terms["action_diffusion_loss"] > 0
