"""One run from its configuration to its report, top to bottom.

Devices, data, abstract state, shardings, restore or initialise, loop, report. Until the state is made nothing is
allocated, and until the run record is written nothing is on disk, so that whatever cannot work leaves no trace.
"""

import functools
from collections.abc import Callable
from pathlib import Path

import jax
from jax.sharding import Mesh, PartitionSpec

from wam_jax.config import Config, LoadedConfig
from wam_jax.data.batching.planner import BucketPlanner
from wam_jax.data.encoders.codec import codec_of
from wam_jax.data.inspection.verify import check_fingerprint, verify_episode
from wam_jax.data.loader import TrainData
from wam_jax.data.storage.store import Store
from wam_jax.errors import InputError
from wam_jax.model import model_config
from wam_jax.policies.base import check_batching_mode
from wam_jax.policies.dual_expert import DualExpertPolicy, policy_from_config
from wam_jax.training.checkpoint import CheckpointWriter, read_meta, restore_params, restore_state
from wam_jax.training.cluster import check_alike, is_main, meet, say
from wam_jax.training.interrupt import StopRequest
from wam_jax.training.locate import Json, unfinished
from wam_jax.training.loop import Loop
from wam_jax.training.mesh import AXES, check_world_size, make_mesh, process_rows
from wam_jax.training.metrics import MetricsFile, read_rows, truncate_rows
from wam_jax.training.nonfinite import NonFiniteError
from wam_jax.training.optimizer import Optimizer, make_optimizer
from wam_jax.training.phases import DataPhase, next_phase
from wam_jax.training.plots import PLOT_FILE, draw_report
from wam_jax.training.programs import Programs, build_programs
from wam_jax.training.ranks import on_each_rank
from wam_jax.training.record import check_contract, checkpoint_meta, data_record, run_record, write_run_record
from wam_jax.training.report import shapes_text, summarise, table, write_report
from wam_jax.training.sinks import ProgressBar, Recorder, TensorBoard
from wam_jax.training.start import METRICS_FILE, Start, set_newer_aside
from wam_jax.training.state import TrainState, abstract_state, initialise, start_from
from wam_jax.training.strips import Strip, denoised_strips
from wam_jax.training.tree import count_values, leaf_names, parameter_counts
from wam_jax.training.warmup import compile_ahead

NON_FINITE = 3
"""The exit code of a run that stops at an update that is not finite: another start would meet the same one."""


def train(loaded: LoadedConfig, start: Start, store: Store, *, world_size: int | None = None) -> int:
    """Trains a run whose configuration, directory and store have been checked; returns the exit code.

    Args:
        loaded: the configuration.
        start: where to write and what to continue.
        store: the trajectories.
        world_size: the number of devices that there must be, or None for any.
    Raises:
        InputError: devices, data or checkpoint do not fit; nothing was written.
    """
    config, steps = loaded.config, loaded.config.training.num_steps
    mesh, step = checked_devices(config, start, store, world_size=world_size), start.step
    source_meta = read_meta(start.source) if start.source else None
    resumed = source_meta if start.resume else None
    data = open_data(config, store, mesh, resumed=None if start.new_data_phase else resumed)
    phase = data_phase(start, resumed, data)
    policy = make_policy(config, store)
    optimizer = make_optimizer(config.training.optimizer, num_steps=steps)
    abstract = abstract_state(mesh, policy, optimizer)
    with StopRequest() as stop:
        state = first_state(start, abstract, policy, optimizer, seed=config.seed)
        record = describe(loaded, start, store, abstract, source_meta, data.shapes.summary())
        if is_main():
            write_run_record(start.workdir, record)
        programs = compiled_programs(policy, optimizer, abstract, data)
        compile_ahead(programs, state, data.empty_batches(), mesh, until=lambda: stop.requested)
        with (
            open_recorder(start, num_steps=steps, step=step) as recorder,
            CheckpointWriter(start.checkpoints, keep=config.training.max_checkpoints_to_keep) as checkpoints,
        ):
            loop = Loop(
                config=config.training,
                mesh=mesh,
                programs=programs,
                steps=data.steps,
                held_out=data.validation(),
                phase=phase,
                draws=draws_by_update(data, phase),
                recorder=recorder,
                checkpoints=checkpoints,
                meta=checkpoint_meta(record, data.contract(), phase, samples_per_update=data.draws_per_step),
                stop=stop,
            )
            try:
                state, step = loop.run(state, step)
            except NonFiniteError as error:
                say(f"stopped: {error}")
                return NON_FINITE
    if stop.requested:  # Perhaps at the last update: the validation of the end is then still to come.
        say(f"stopped at step {step} and saved; go on by --resume-from {start.workdir}")
        return stop.exit_code
    strips = held_out_strips(config, store, mesh, policy, state, data)
    if is_main():
        report(start.workdir, record, strips, sigma=config.validation.report_sigma)
    return 0


def checked_devices(config: Config, start: Start, store: Store, *, world_size: int | None) -> Mesh:
    """The mesh, after everything is refused that needs no trajectory to be seen."""
    check_world_size(world_size)
    check_alike(given_to_all(config, start, store))
    read_rows(start.workdir / METRICS_FILE)  # A damaged file is refused here; it is cut when the loop starts.
    steps = config.training.num_steps
    if start.step > steps:
        raise InputError("training.num_steps", steps, f"the checkpoint is at step {start.step} already; give more")
    return make_mesh(config.trainer.mesh)


def given_to_all(config: Config, start: Start, store: Store) -> dict[str, str]:
    """What the processes of a run compute their common plans from, by the name of what gives it."""
    return {
        "--config": repr(config),
        "--workdir": str(start.workdir),
        "the checkpoint to start from": str(start.source.path) if start.source else "",
        "--new-data-phase": str(start.new_data_phase),
        "data.store": store.fingerprint,
    }


def open_data(config: Config, store: Store, mesh: Mesh, *, resumed: Json | None = None) -> TrainData:
    """The run's data, all of it checked where the store is small, else what is needed first.

    `resumed` is what the checkpoint of a resumed run says: constants that its stream of draws began with are kept.
    """
    group = resumed["data_contract"].get("objective_group") if resumed else None
    data = TrainData(config, store, rows=process_rows(mesh), ranks=mesh.size, objective_group=group)
    if int(store.index.num_bytes.sum()) <= config.data.verify_up_to_bytes:
        check_fingerprint(store)
        for episode in range(len(store)):
            verify_episode(store, episode)
    data.validation()
    return data


def data_phase(start: Start, resumed: Json | None, data: TrainData) -> DataPhase:
    """Where in the stream of draws to go on.

    Raises:
        InputError: the data are not those of the checkpoint, and nobody asked for a new phase.
    """
    if start.resume is None or resumed is None:
        return DataPhase()
    before = DataPhase(**resumed.get("data_phase", {}))
    if not start.new_data_phase:
        check_contract(start.resume, resumed, data.contract())
        return before
    sizes = {"draws_per_epoch": data.draws_per_epoch, "draws_per_step": data.draws_per_step}
    phase = next_phase(before, start.resume.step, **sizes)
    say(f"data phase {phase.number} begins at step {phase.from_step}, with draws of its own")
    return phase


def draws_by_update(data: TrainData, phase: DataPhase) -> Callable[[int], range] | None:
    """Where in the stream the draws of each update are; None where they are no stretch of it."""
    if isinstance(data.planner, BucketPlanner):
        return None
    return functools.partial(phase.draws, draws_per_step=data.draws_per_step)


def make_policy(config: Config, store: Store) -> DualExpertPolicy:
    """The policy, sized by the configuration and the store."""
    dims = store.manifest.dims
    model = model_config(
        config,
        action_dim=dims.action_dim,
        state_dim=dims.state_dim or 0,
        text_dim=dims.text_dim or config.backbone.text_dim,
        latent_height=dims.height,
        latent_width=dims.width,
        actions_per_frame=store.manifest.actions_per_frame,
    )
    policy = policy_from_config(config, model)
    check_batching_mode(policy, config.data.batching.mode)
    return policy


def compiled_programs(
    policy: DualExpertPolicy, optimizer: Optimizer, abstract: TrainState, data: TrainData
) -> Programs:
    """The programs of the run, compiled on first use."""
    return build_programs(
        policy,
        optimizer,
        abstract=abstract,
        batch=data.validation()[0],
        samples_per_update=data.draws_per_step,
        objectives=data.objectives,
    )


def first_state(
    start: Start, abstract: TrainState, policy: DualExpertPolicy, optimizer: Optimizer, *, seed: int
) -> TrainState:
    """The state to go on from: restored, made from other parameters, or fresh."""
    if start.resume:
        for name in unfinished(start.resume.directory):
            say(f"{start.resume.directory / name} was cut short while being written and is left out")
        state = restore_state(start.resume, abstract)
        say(f"resumed from {start.resume.path}")
        return state
    if start.initialize:
        params = restore_params(start.initialize, abstract.params)
        leaves, size = len(leaf_names(params)), count_values(params)
        say(f"took all {leaves} parameters ({size:,} numbers) from {start.initialize.path}")
        return start_from(abstract, params, optimizer)
    return initialise(abstract, policy, optimizer, seed=seed)


def describe(
    loaded: LoadedConfig, start: Start, store: Store, abstract: TrainState, source_meta: Json | None, shapes: Json
) -> Json:
    """The content of run.json."""
    record = run_record(
        start,
        loaded.config,
        overrides=loaded.overrides,
        parameters=parameter_counts(abstract.params),
        data=data_record(loaded.config.data, store),
        shapes=shapes,
        source_meta=source_meta,
    )
    for name, (old, new) in record["launches"][-1]["changed"].items():
        say(f"{name} was {old!r} and is {new!r} from here on")
    say(f"{config_line(record)}; writing to {start.workdir}")
    say(shapes_text(shapes))
    return record


def config_line(record: Json) -> str:
    """The run in one line: its name, its size, its devices."""
    devices = record["launches"][-1]["devices"]
    size = record["parameters"]["total"]
    return f"{record['name']} ({record['run_id']}): {size:,} parameters on {devices['count']} x {devices['kind']}"


def open_recorder(start: Start, *, num_steps: int, step: int) -> Recorder:
    """Where rows go, after what lies beyond `step` has been taken back: rows, points of curves, checkpoints.

    Process 0 does it for all; nobody returns before it is done.
    """
    kept, path = -1, start.workdir / METRICS_FILE
    if start.record and start.resume:
        kept = step
    earlier = [row for row in read_rows(path) if row["step"] <= kept]
    meet("all processes have read the rows")
    if not is_main():
        meet("process 0 has made room")
        return Recorder([], earlier=earlier)
    for moved in set_newer_aside(start.resume) if start.record and start.resume else ():
        say(f"a newer checkpoint was set aside: {moved}")
    truncate_rows(path, step=kept)
    meet("process 0 has made room")
    curves = TensorBoard(start.workdir / "tensorboard", kept=kept)
    return Recorder([MetricsFile(path), curves, ProgressBar(total=num_steps, done=step)], earlier=earlier)


def held_out_strips(
    config: Config, store: Store, mesh: Mesh, policy: DualExpertPolicy, state: TrainState, data: TrainData
) -> list[Strip]:
    """The pictures of the report; none where the store has no codec."""
    codec = codec_of(store)
    if codec is None:
        return []
    own = functools.partial(policy.denoised_video, sigma=config.validation.report_sigma)
    denoise = jax.jit(on_each_rank(own, state.params, out_specs=PartitionSpec(AXES)))
    count = config.validation.report_draws
    return denoised_strips(denoise, state.evaluated, data.validation(), mesh, codec, count=count)


def report(workdir: Path, record: Json, strips: list[Strip], *, sigma: float) -> None:
    """Prints the table and writes report.json and report.png."""
    rows = read_rows(workdir / METRICS_FILE)
    summary = summarise(rows, record=record)
    write_report(workdir, summary)
    draw_report(workdir / PLOT_FILE, rows, strips, title=record["name"], sigma=sigma)
    print(table(summary))
    say(f"wrote report.json and {PLOT_FILE} to {workdir}")
