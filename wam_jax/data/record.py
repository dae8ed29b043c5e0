"""Records simulated expert demonstrations into a trajectory store.

    uv run --extra sim python -m wam_jax.data.record --out stores/metaworld12

rolls out Meta-World's scripted experts in MuJoCo, renders one camera on the CPU, fits the stand-in codec on the train
split (or takes a given one), encodes the video and, for every latent frame, its anchor frame alone, and writes the
store. It is simulated expert data, not real-robot data. Only successful episodes are kept; the last one of each task
validates.

--branches adds episodes of another source, `counterfactual_dynamics`: they begin at restored states of demonstrations
and go on under perturbed actions. Only the routes of a configuration reach them.

The same arguments on the same versions give bitwise the same video, actions and states. A codec that is fitted anew can
differ in the last bits between machines, because their linear algebra does; give --codec for the very same latents.

The default, twelve tasks with five episodes each, takes four minutes on two cores.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tqdm import tqdm

from wam_jax import cli
from wam_jax.data.encoders.codec import GROUP, KltCodec, codec_from_bytes
from wam_jax.data.encoders.text import HashedWordEncoder
from wam_jax.data.recording.branches import Branch, BranchRequest, record_all_branches
from wam_jax.data.recording.encode import fit_to, write_branches, write_recordings
from wam_jax.data.recording.provenance import branch_provenance, provenance_of
from wam_jax.data.recording.rollout import MAX_STEPS
from wam_jax.data.recording.schedule import Request, last_of_each_task, record_all
from wam_jax.data.recording.simulator import known_tasks
from wam_jax.data.recording.spool import Spooled
from wam_jax.data.recording.tasks import DEFAULT_TASKS
from wam_jax.data.storage.manifest import PAYLOAD_FORMATS
from wam_jax.data.storage.writer import StoreWriter
from wam_jax.errors import InputError


def main(arguments: Sequence[str] | None = None) -> int:
    """Records, encodes and writes; see the text of the module."""
    options = _parser().parse_args(arguments)
    given = _read_codec(options.codec) if options.codec else None
    _refuse(options, patch=given.patch if given else options.patch)
    request = Request(
        tasks=tuple(options.tasks),
        episodes=options.episodes_per_task,
        first_seed=options.first_seed,
        size=options.size,
        tail=options.tail,
    )
    with TemporaryDirectory(prefix="wam-jax-recordings-", dir=options.spool) as spool:
        with tqdm(total=len(request.tasks) * request.episodes, desc="recording", unit="episode") as bar:
            recordings = record_all(request, Path(spool), workers=options.workers, on_episode=lambda _: bar.update())
        validation = last_of_each_task(recordings)
        branches = _branch(recordings, validation, Path(spool), options)
        codec = given or _fit([item for item in recordings if item not in validation], options)
        quality = _write(request, recordings, validation, branches, codec, options)
    print(f"reconstruction of {codec.record.name}: " + ", ".join(f"{k} {v:.1f} dB" for k, v in sorted(quality.items())))
    written = len(recordings) + len(branches)
    print(f"wrote {options.out}: {written} episodes; see python -m wam_jax.data.inspect {options.out}")
    return 0


def _branch(
    recordings: Sequence[Spooled], validation: set[Spooled], spool: Path, options: argparse.Namespace
) -> list[Branch]:
    train, val = options.branches
    request = BranchRequest(train, val, steps=options.branch_steps, strength=options.branch_strength)
    if train or val:
        print(f"recording {train} + {val} branches of each task")
    return record_all_branches(request, recordings, spool, validation=validation, workers=options.workers)


def _fit(recordings: Sequence[Spooled], options: argparse.Namespace) -> KltCodec:
    print(f"fitting a codec of {options.channels} channels to {len(recordings)} episodes")
    return fit_to(recordings, patch=options.patch, channels=options.channels)


def _write(
    request: Request,
    recordings: Sequence[Spooled],
    validation: set[Spooled],
    branches: Sequence[Branch],
    codec: KltCodec,
    options: argparse.Namespace,
) -> dict[str, float]:
    with StoreWriter(
        options.out,
        encoder=codec.record,
        actions_per_frame=GROUP,
        text_encoder=HashedWordEncoder(),
        payload=options.payload,
        compression=options.compression,
        codec=codec.to_bytes(),
        provenance=provenance_of(request, recordings),
    ) as writer:
        bar = tqdm(recordings, desc="encoding", unit="episode")
        quality = write_recordings(bar, codec, writer, validation=validation, latent_bits=options.latent_bits)
        if branches:
            write_branches(branches, codec, writer, validation=validation, latent_bits=options.latent_bits)
            writer.note(branches=branch_provenance(branches))
        writer.note(reconstruction_psnr_db={split: round(value, 2) for split, value in quality.items()})
        writer.note(latent_step=None if options.latent_bits is None else 2.0**-options.latent_bits)
    return quality


def _parser() -> argparse.ArgumentParser:
    parser = cli.Parser(
        prog="python -m wam_jax.data.record",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--out", type=Path, required=True, help="the store to write; must not exist")
    add("--tasks", nargs="+", default=list(DEFAULT_TASKS), metavar="TASK", help="Meta-World tasks (default: twelve)")
    add("--episodes-per-task", type=int, default=5, metavar="N", help="successes to keep, 2 or more (default: 5)")
    add("--first-seed", type=int, default=0, metavar="N", help="seeds go up from here (default: 0)")
    add("--size", type=int, default=128, metavar="PIXELS", help="pixels per side, a multiple of --patch (default: 128)")
    add("--tail", type=int, default=4, metavar="STEPS", help="steps after the first success (default: 4)")
    branches = "branches of each task from its training and its validating episodes (default: 0 0)"
    add("--branches", nargs=2, type=int, default=(0, 0), metavar=("TRAIN", "VAL"), help=branches)
    add("--branch-steps", type=int, default=32, metavar="N", help="actions of a branch (default: 32)")
    add("--branch-strength", type=float, default=0.7, metavar="STD", help="of the actions' offsets (default: 0.7)")
    add("--workers", type=int, default=2, metavar="N", help="processes that simulate (default: 2)")
    add("--codec", type=Path, metavar="FILE", help="codec.safetensors of a store, instead of fitting one")
    add("--patch", type=int, default=16, metavar="PIXELS", help="spatial stride of a fitted codec (default: 16)")
    add("--channels", type=int, default=48, metavar="C", help="channels of a fitted codec (default: 48)")
    add("--latent-bits", type=int, metavar="B", help="round latents to multiples of 2^-B (default: float16 as it is)")
    add("--payload", choices=PAYLOAD_FORMATS, default="array_record", help="container (default: array_record)")
    add("--compression", default="none", help="none or zstd:LEVEL (default: none)")
    add("--spool", type=Path, metavar="DIR", help="room for raw video, 50 kB per frame (default: the system's)")
    return parser


def _read_codec(path: Path) -> KltCodec:
    if not path.is_file():
        raise InputError("--codec", str(path), "a codec.safetensors of a store")
    return codec_from_bytes(path.read_bytes(), source=str(path))


def _refuse(options: argparse.Namespace, *, patch: int) -> None:
    """Finds what cannot work before minutes of simulation."""
    known = known_tasks()
    for task in options.tasks:
        if task not in known:
            raise InputError("--tasks", task, f"one of {', '.join(known)}")
    if options.episodes_per_task < 2:
        raise InputError("--episodes-per-task", options.episodes_per_task, "at least 2: one of each task validates")
    for name in ("size", "workers", "patch", "channels"):
        if getattr(options, name) < 1:
            raise InputError(f"--{name}", getattr(options, name), "at least 1")
    if min(options.branches) < 0:
        raise InputError("--branches", options.branches, "two numbers, none below 0")
    if not 1 <= options.branch_steps <= MAX_STEPS:
        raise InputError("--branch-steps", options.branch_steps, f"1 to {MAX_STEPS}")
    if not options.branch_strength > 0:
        raise InputError("--branch-strength", options.branch_strength, "above 0; at 0 a branch is its parent")
    if options.size % patch:
        raise InputError("--size", options.size, f"a multiple of the codec's patch, {patch}")
    if options.out.exists():
        raise InputError("--out", str(options.out), "exists already; remove it or choose another directory")


if __name__ == "__main__":
    cli.run(main)
