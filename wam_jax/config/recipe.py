"""The rules of a recipe: what program, clock, sequence contract, loss ranges and routes allow one another."""

from wam_jax.config.schema import Config
from wam_jax.errors import InputError
from wam_jax.sequence.contracts import sequence_contract
from wam_jax.sequence.objectives import Objective
from wam_jax.sequence.programs import PROGRAMS, Program

INVARIANT_TILE = 64
"""The tile of batch-invariant runs that name none."""

LOSS_RANGE = "data.sample_construction.loss_range"
_ROUTES = "data.routing.routes"
_ROUTED = ", ".join(name for name, program in PROGRAMS.items() if program.routed)
_GENERIC = ("loss_frame_start", "loss_frame_end")


def attention_backend(config: Config) -> str | None:
    """The backend of range attention by name, None for the best one; aligned samples need one that visits tiles."""
    if config.backbone.attention != "auto":
        return config.backbone.attention
    return None if tile_alignment(config) is None else "tiled"


def tile_alignment(config: Config) -> int | None:
    """Tokens at whose multiples samples begin, or None where they lie back to back."""
    given = config.data.batching.tile_alignment
    return INVARIANT_TILE if given is None and config.numerics.batch_invariant else given


def _program(config: Config) -> None:
    policy, program = config.policy, PROGRAMS[config.policy.program]
    if policy.generalist_mode_text_token and program.name != "generalist_joint_denoising":
        raise InputError(
            "policy.generalist_mode_text_token", True, "only for policy.program generalist_joint_denoising"
        )
    if policy.require_condition_latents and not policy.use_condition_latents:
        raise InputError("policy.require_condition_latents", True, "needs policy.use_condition_latents")
    layers = policy.num_action_layers
    if layers is not None and layers != config.backbone.num_layers:
        raise InputError(
            "policy.num_action_layers",
            layers,
            f"blocks are paired; must be backbone.num_layers {config.backbone.num_layers}",
        )


def _clock(config: Config) -> None:
    field, clock, program = (
        "policy.joint_timestep_coupling",
        config.policy.joint_timestep_coupling,
        config.policy.program,
    )
    if clock != "independent" and not PROGRAMS[program].joint_clock:
        clocked = ", ".join(name for name, other in PROGRAMS.items() if other.joint_clock)
        remedy = f"{program} has no joint clock; use 'independent', or one of the programs {clocked}"
        raise InputError(field, clock, remedy)
    video, action = config.training.num_video_timesteps, config.training.num_action_timesteps
    if clock == "match_index" and video != action:
        remedy = f"needs training.num_video_timesteps {video} and num_action_timesteps {action} to be equal"
        raise InputError(field, clock, remedy)


def _contract(config: Config) -> None:
    policy, contract = config.policy, sequence_contract(config.policy.sequence_contract)
    if contract.frame_states and policy.proprio_context_mode != "per_chunk_additive":
        remedy = f"policy.sequence_contract {contract.name!r} needs 'per_chunk_additive'"
        raise InputError("policy.proprio_context_mode", policy.proprio_context_mode, remedy)
    if not contract.prefix_frames:
        return
    if not policy.use_condition_latents:
        remedy = f"policy.sequence_contract {contract.name!r} makes its frame of them; use True"
        raise InputError("policy.use_condition_latents", False, remedy)
    source = policy.context_condition_latent_source
    if source != "video_latents":
        remedy = f"policy.sequence_contract {contract.name!r} has no history to replace; use 'video_latents'"
        raise InputError("policy.context_condition_latent_source", source, remedy)


def _loss_range(config: Config) -> None:
    given, contract = config.data.sample_construction.loss_range, sequence_contract(config.policy.sequence_contract)
    for name in _GENERIC:
        if contract.context_frames and getattr(given, name) is not None:
            remedy = f"policy.sequence_contract {contract.name!r} says it; leave it None"
            raise InputError(f"{LOSS_RANGE}.{name}", getattr(given, name), remedy)
    if given.loss_frame_end is not None and given.loss_frame_start is None:
        raise InputError(f"{LOSS_RANGE}.loss_frame_start", None, "is the history of a sample; give it beside the end")
    if given.loss_frame_start == 0:
        raise InputError(f"{LOSS_RANGE}.loss_frame_start", 0, "is the history of a sample; at least 1")
    for stream in ("", "latent_", "action_"):
        start, end = (getattr(given, stream + name) for name in _GENERIC)
        if start is not None and end is not None and start > end:
            raise InputError(f"{LOSS_RANGE}.{stream}loss_frame_end", end, f"must not lie before its start {start}")


def _alignment(config: Config) -> None:
    construction, contract = config.data.sample_construction, sequence_contract(config.policy.sequence_contract)
    starts = contract.context_frames or construction.loss_range.loss_frame_start
    if construction.target_alignment == "next_after_context" and not starts:
        remedy = (
            "needs a first supervised frame: policy.sequence_contract 'context_frame', or loss_range.loss_frame_start"
        )
        raise InputError("data.sample_construction.target_alignment", construction.target_alignment, remedy)


def _routes(config: Config) -> None:
    routes, program = config.data.routing.routes, PROGRAMS[config.policy.program]
    if routes and not program.routed:
        raise InputError(_ROUTES, routes, f"policy.program {program.name} takes none; use one of {_ROUTED}")
    for source, objective, weight in routes:
        _one_route(program, source, objective, weight)
    kinds = [route[:2] for route in routes]
    for kind in kinds:
        if kinds.count(kind) > 1:
            raise InputError(_ROUTES, kind, "is there more than once; add up its weights")
    if routes and not any(weight > 0 for *_, weight in routes):
        raise InputError(_ROUTES, routes, "needs a weight above 0")


def _one_route(program: Program, source: str, objective: str, weight: float) -> None:
    if weight < 0:
        raise InputError(_ROUTES, weight, "weights must not be negative")
    if (source, objective) == ("counterfactual_dynamics", "joint"):
        remedy = (
            "branches show dynamics, no demonstrations: train 'action_conditioned_video' or 'video_conditioned_action'"
        )
        raise InputError(_ROUTES, (source, objective), remedy)
    fixed = program.fixed_objective
    if fixed is not None and Objective[objective.upper()] is not fixed:
        remedy = f"policy.program {program.name} trains {fixed.label!r} only"
        raise InputError(_ROUTES, (source, objective), remedy)


def _order(config: Config) -> None:
    order, routing = config.data.sample_construction.sample_order_mode, config.data.routing
    several = sum(weight > 0 for *_, weight in routing.routes) > 1
    if order != "replacement" and (several or routing.length_multiplier != 1):
        why = f"{_ROUTES} has several routes" if several else "data.routing.length_multiplier is not 1"
        raise InputError("data.sample_construction.sample_order_mode", order, f"{why}; use 'replacement'")


def _weights(config: Config) -> None:
    at, construction = "data.sample_construction", config.data.sample_construction
    weights, order = construction.replacement_weights, construction.sample_order_mode
    if weights != "uniform" and order != "replacement":
        remedy = f"needs {at}.sample_order_mode 'replacement'; {order!r} takes every sample once, use 'uniform'"
        raise InputError(f"{at}.replacement_weights", weights, remedy)
    given = construction.task_weights
    if given and weights not in ("task", "length_and_task"):
        remedy = f"needs {at}.replacement_weights 'task' or 'length_and_task', which is {weights!r}"
        raise InputError(f"{at}.task_weights", given, remedy)
    names = [name for name, _ in given]
    for name, weight in given:
        if weight <= 0:
            raise InputError(f"{at}.task_weights", (name, weight), "weights must be above 0")
        if names.count(name) > 1:
            raise InputError(f"{at}.task_weights", name, "is there more than once")


RULES = (_program, _clock, _contract, _loss_range, _alignment, _routes, _order, _weights)
"""Each takes the configuration and raises InputError."""
