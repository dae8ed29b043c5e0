"""Recipes that cannot be are refused by the command before a model is built, in one line, with nothing written."""

from pathlib import Path

import pytest

from tests.training.commands import make_experiment
from wam_jax import train
from wam_jax.errors import InputError

GJD, FDM = "policy.program=generalist_joint_denoising", "policy.program=forward_dynamics"
ADDITIVE = "policy.proprio_context_mode=per_chunk_additive"
PREFIX = "policy.sequence_contract=prefix_frame"
REPLACEMENT = "data.sample_construction.sample_order_mode=replacement"
JOINT, REAL_FDM = "('real_demo','joint',1)", "('real_demo','action_conditioned_video',1)"
BRANCHES = "('counterfactual_dynamics','action_conditioned_video',1)"


def routes(*given: str) -> str:
    return f"data.routing.routes=({','.join(given)},)"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_experiment(tmp_path_factory.mktemp("refused"))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ((FDM, routes(JOINT)), "policy.program forward_dynamics trains 'action_conditioned_video' only"),
        ((routes(JOINT),), "policy.program joint takes none; use one of generalist_joint_denoising"),
        ((GJD, routes(JOINT, REAL_FDM)), "data.routing.routes has several routes; use 'replacement'"),
        ((GJD, REPLACEMENT, routes(JOINT, BRANCHES)), "no train episode is one (sources: tiny)"),
        (("policy.generalist_mode_text_token=true",), "only for policy.program generalist_joint_denoising"),
        ((FDM, "policy.joint_timestep_coupling=match_sigma"), "forward_dynamics has no joint clock"),
        ((PREFIX,), "'prefix_frame' needs 'per_chunk_additive'"),
        (
            (PREFIX, ADDITIVE, GJD, REPLACEMENT, routes(JOINT, REAL_FDM)),
            "needs equal prefix frames in all samples, found ep0 on real_action_conditioned_video: 0",
        ),
        (("data.sample_construction.target_alignment=next_after_context",), "needs a first supervised frame"),
        (("data.sample_construction.loss_range.loss_frame_start=3",), "leaves no supervised frame of the shortest"),
        (("data.sample_construction.loss_range.action_loss_frame_end=4",), "must lie in the shortest sample, 3 frames"),
        ((FDM, "data.sample_construction.conditional_start=history"), "needs equal latent frames in all samples"),
    ],
)
def test_a_recipe_that_cannot_be_leaves_no_trace(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overrides: tuple[str, ...], message: str
) -> None:
    monkeypatch.setattr("wam_jax.training.run.make_policy", pytest.fail)
    words = ["--config", str(config), "--workdir", str(tmp_path / "run"), *(f"--config.{word}" for word in overrides)]
    with pytest.raises(InputError) as error:
        train.main(words)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()
