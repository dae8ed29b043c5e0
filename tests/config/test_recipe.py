"""Which programs, clocks, contracts, loss ranges and routes allow one another: said before anything is built."""

import typing
from collections.abc import Callable

import pytest

from wam_jax.config import load
from wam_jax.config.schema import Contract, ObjectiveName
from wam_jax.errors import InputError
from wam_jax.sequence import Objective
from wam_jax.sequence.contracts import ALIASES, CONTRACTS, sequence_contract
from wam_jax.sequence.programs import PROGRAMS

File = Callable[..., str]
GJD, FDM = "policy.program=generalist_joint_denoising", "policy.program=forward_dynamics"
ADDITIVE = "policy.proprio_context_mode=per_chunk_additive"
PREFIX, CONTEXT = "policy.sequence_contract=prefix_frame", "policy.sequence_contract=context_frame"
CONSTRUCTION = "data.sample_construction."
RANGE = CONSTRUCTION + "loss_range."
REPLACEMENT = CONSTRUCTION + "sample_order_mode=replacement"


def routes(*given: tuple[str, str, float]) -> str:
    return f"data.routing.routes={given!r}"


JOINT = ("real_demo", "joint", 1.0)
REAL_FDM = ("real_demo", "action_conditioned_video", 1.0)
REAL_IDM = ("real_demo", "video_conditioned_action", 1.0)


def refused(path: str, *overrides: str) -> str:
    with pytest.raises(InputError) as error:
        load(path, [f"--config.{override}" for override in overrides])
    return str(error.value)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("policy.num_action_layers=3",), "must be backbone.num_layers 1"),
        (("policy.generalist_mode_text_token=true",), "only for policy.program generalist_joint_denoising"),
        ((FDM, "policy.generalist_mode_text_token=true"), "only for policy.program generalist_joint_denoising"),
        (
            ("policy.require_condition_latents=true", "policy.use_condition_latents=false"),
            "needs policy.use_condition_latents",
        ),
    ],
)
def test_programs(config_file: File, overrides: tuple[str, ...], message: str) -> None:
    assert message in refused(config_file(), *overrides)


@pytest.mark.parametrize("clock", ["match_index", "match_sigma", "shared_video_schedule"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_coupled_clock_needs_a_program_that_has_one(config_file: File, program: str, clock: str) -> None:
    overrides = (f"policy.program={program}", f"policy.joint_timestep_coupling={clock}")
    if PROGRAMS[program].joint_clock:
        assert load(config_file(), [f"--config.{word}" for word in overrides]).config.policy.program == program
    else:
        assert f"{program} has no joint clock; use 'independent'" in refused(config_file(), *overrides)


def test_matched_indices_need_equal_grids(config_file: File) -> None:
    message = refused(config_file(), "policy.joint_timestep_coupling=match_index", "training.num_action_timesteps=500")
    assert "'match_index': needs training.num_video_timesteps 1000 and num_action_timesteps 500 to be equal" in message


@pytest.mark.parametrize("name", [*CONTRACTS, *ALIASES])
def test_contracts_are_accepted_under_both_names(config_file: File, name: str) -> None:
    config = load(config_file(), [f"--config.policy.sequence_contract={name}", f"--config.{ADDITIVE}"]).config
    assert sequence_contract(config.policy.sequence_contract) is CONTRACTS[ALIASES.get(name, name)]


def test_the_schema_names_the_contracts_and_objectives_there_are() -> None:
    assert typing.get_args(Contract) == (*CONTRACTS, *ALIASES)
    assert typing.get_args(ObjectiveName) == tuple(objective.label for objective in Objective)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            (PREFIX,),
            "policy.proprio_context_mode = 'none': policy.sequence_contract 'prefix_frame' needs 'per_chunk_add",
        ),
        (("policy.proprio_context_mode=text_context_token", CONTEXT), "'context_frame' needs 'per_chunk_additive'"),
        ((PREFIX, ADDITIVE, "policy.use_condition_latents=false"), "makes its frame of them; use True"),
        (
            (PREFIX, ADDITIVE, "policy.context_condition_latent_source=single_frame_condition_latent"),
            "has no history to replace; use 'video_latents'",
        ),
        ((CONSTRUCTION + "target_alignment=next_after_context",), "needs a first supervised frame"),
        ((CONTEXT, ADDITIVE, RANGE + "loss_frame_start=1"), "'context_frame' says it; leave it None"),
    ],
)
def test_contracts_say_what_goes_with_them(config_file: File, overrides: tuple[str, ...], message: str) -> None:
    assert message in refused(config_file(), *overrides)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("loss_frame_start=-1",), "loss_range.loss_frame_start = -1: must not be negative"),
        (("loss_frame_start=0",), "loss_frame_start = 0: is the history of a sample; at least 1"),
        (("loss_frame_end=3",), "loss_frame_start = None: is the history of a sample; give it beside the end"),
        (("loss_frame_start=4", "loss_frame_end=3"), "loss_frame_end = 3: must not lie before its start 4"),
        (("latent_loss_frame_start=2", "latent_loss_frame_end=1"), "latent_loss_frame_end = 1: must not lie before"),
        (("action_loss_frame_start=2", "action_loss_frame_end=1"), "action_loss_frame_end = 1: must not lie before"),
    ],
)
def test_loss_ranges_that_are_none(config_file: File, overrides: tuple[str, ...], message: str) -> None:
    assert message in refused(config_file(), *(RANGE + word for word in overrides))


@pytest.mark.parametrize("program", [name for name, program in PROGRAMS.items() if not program.routed])
def test_other_programs_take_no_route(config_file: File, program: str) -> None:
    message = refused(config_file(), f"policy.program={program}", routes(JOINT))
    assert f"policy.program {program} takes none; use one of generalist_joint_denoising, forward_dynamics" in message


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ((FDM, routes(REAL_IDM)), "policy.program forward_dynamics trains 'action_conditioned_video' only"),
        ((FDM, routes(JOINT)), "policy.program forward_dynamics trains 'action_conditioned_video' only"),
        (
            (GJD, routes(("counterfactual_dynamics", "joint", 1.0))),
            "= ('counterfactual_dynamics', 'joint'): branches show dynamics",
        ),
        ((GJD, REPLACEMENT, routes(JOINT, JOINT)), "= ('real_demo', 'joint'): is there more than once"),
        ((GJD, routes(("real_demo", "joint", -0.5))), "routes = -0.5: weights must not be negative"),
        ((GJD, routes(("real_demo", "joint", 0.0))), "needs a weight above 0"),
        ((GJD, routes(("home", "joint", 1.0))), "= 'home': must be one of 'real_demo', 'counterfactual_dynamics'"),
        ((GJD, routes(("real_demo", "fdm", 1.0))), "= 'fdm': must be one of 'joint', 'action_conditioned_video'"),
        ((GJD, "data.routing.routes=(1,)"), "data.routing.routes = 1: must be a tuple of 3"),
        ((GJD, "data.routing.routes=joint"), "= 'joint': must be a tuple of items, each a tuple of 3: (one of"),
        (
            (GJD, routes(JOINT, REAL_FDM)),
            "sample_order_mode = 'epoch': data.routing.routes has several routes; use 'rep",
        ),
        ((GJD, "data.routing.length_multiplier=2"), "data.routing.length_multiplier is not 1; use 'replacement'"),
        ((GJD, "data.routing.objective_group=0"), "data.routing.objective_group = 0: must be above 0"),
    ],
)
def test_routes_that_cannot_be(config_file: File, overrides: tuple[str, ...], message: str) -> None:
    assert message in refused(config_file(), *overrides)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("length",), "replacement_weights = 'length': needs data.sample_construction.sample_order_mode 'replacement'"),
        (("weights",), "= 'weights': must be one of 'uniform', 'length', 'task', 'length_and_task'"),
        (
            ("uniform", "[('a',1.0)]"),
            "task_weights = (('a', 1.0),): needs data.sample_construction.replacement_weights",
        ),
        (("length", "[('a',1.0)]", REPLACEMENT), "'task' or 'length_and_task', which is 'length'"),
        (("task", "[('a',0)]", REPLACEMENT), "task_weights = ('a', 0.0): weights must be above 0"),
        (("task", "[('a',1),('a',2)]", REPLACEMENT), "task_weights = 'a': is there more than once"),
        (("task", "[('a',)]", REPLACEMENT), "task_weights = ('a',): must be a tuple of 2: (a text, a finite number)"),
        (("task", "a", REPLACEMENT), "task_weights = 'a': must be a tuple of items"),
    ],
)
def test_weights_that_cannot_be(config_file: File, overrides: tuple[str, ...], message: str) -> None:
    names = ("replacement_weights=", "task_weights=", "")
    words = [name + word for name, word in zip(names, overrides, strict=False)]
    words = [word if word == REPLACEMENT else CONSTRUCTION + word for word in words]
    assert message in refused(config_file(), *words)


def test_routes_from_a_file_and_from_the_command_line(config_file: File) -> None:
    line = "config.data.routing.routes = [['real_demo', 'joint', 3], ('real_demo', 'video_conditioned_action', 1)]"
    path = config_file(line, "config.policy.program = 'generalist_joint_denoising'")
    config = load(path, [f"--config.{REPLACEMENT}"]).config
    assert config.data.routing.routes == (("real_demo", "joint", 3.0), REAL_IDM)
    single = load(path, [f"--config.{routes(REAL_FDM)}", f"--config.{FDM}"]).config
    assert single.data.routing.routes == (REAL_FDM,)
