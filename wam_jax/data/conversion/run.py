"""The conversion itself: list, plan, encode into a spool, pack, publish.

Every stage leaves its result in the spool, so a conversion that was interrupted at any moment goes on from there, and
its store is byte for byte that of an uninterrupted one.
"""

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

from etils import epath
from tqdm import tqdm

from wam_jax.data.conversion.encoders import STAND_IN, EncoderChoice
from wam_jax.data.conversion.finish import Recipe
from wam_jax.data.conversion.fitting import fit_scalings, fit_stand_in
from wam_jax.data.conversion.options import Options
from wam_jax.data.conversion.pack import Packing, pack, provenance_of, skipped_of, texts_of
from wam_jax.data.conversion.plan import Plan, described, make_plan, record_of, try_first
from wam_jax.data.conversion.publish import local_target, publish, refuse_existing
from wam_jax.data.conversion.report import Report, Skipped, counted
from wam_jax.data.conversion.spool import Spool, open_spool, spool_of
from wam_jax.data.conversion.texts import SOURCE, given_text, open_text
from wam_jax.data.conversion.work import Job, run_all
from wam_jax.data.encoders.text import TextEncoder
from wam_jax.data.files import is_remote
from wam_jax.data.storage.manifest import EncoderRecord
from wam_jax.data.storage.normalisation import FIELDS, KEY, read_normalisation
from wam_jax.data.storage.store import open_store
from wam_jax.errors import InputError

HOPELESS = 20
"""Unusable episodes after which a conversion that may skip none ends."""
_FINISHED, _PUBLISHED, _REMOTE = "store", "published", "remote"


def convert(options: Options) -> Report:
    """Runs a conversion from wherever it stands.

    Returns:
        What was done. With state `refused` no store was written, and what was done is kept.
    Raises:
        InputError: something cannot work, or another conversion of the same store is at work.
    """
    started = time.monotonic()
    directory = spool_of(local_target(options.store, options.work_dir))
    plan = make_plan(options, directory / _REMOTE)
    if options.dry_run:
        return try_first(plan)
    if not directory.exists():
        refuse_existing(options.store)
    with open_spool(directory, plan.facts(), restart=options.restart) as spool:
        report = _run(plan, spool)
    return dataclasses.replace(report, seconds=round(time.monotonic() - started, 3))


def _run(plan: Plan, spool: Spool) -> Report:
    if _is_published(spool, plan.options.store):
        return _complete(plan, spool)
    refuse_existing(plan.options.store)
    choice = _fitted(plan, spool)
    scalings = json.loads(
        spool.kept("normalisation.json", lambda: fit_scalings(plan.source, plan.listed, plan.options))
    )
    record = plan.source.latents or record_of(choice)
    actions, state = (read_normalisation(scalings[field], where=field) for field in FIELDS)
    recipe = Recipe(plan.source.units, actions, state, anchored=not plan.options.no_condition_latents, record=record)
    skipped = _encode(plan, Job(plan.source, recipe, choice, spool))
    if skipped and not plan.options.skip_bad:
        return _refused(plan, spool, skipped, record)
    left = {item.id for item in skipped}
    numbers = [number for number, item in enumerate(plan.listed) if item.id not in left]
    if not numbers:
        return _refused(plan, spool, skipped, record)
    skipped += _pack(plan, spool, choice, record, scalings, numbers, skipped)
    if len(skipped) > len(left) and not plan.options.skip_bad:
        return _refused(plan, spool, skipped, record)
    finished = spool.directory / _FINISHED
    spool.put(spool.directory / _PUBLISHED, open_store(finished).fingerprint.encode())
    publish(finished, _place(plan.options.store))
    return _complete(plan, spool)


def _encode(plan: Plan, job: Job) -> list[Skipped]:
    """Converts what is not converted yet; stops early where that is hopeless."""
    skipped, listed = [], plan.listed
    pending = job.spool.pending(len(listed))
    outcomes = run_all(job, listed, pending, workers=plan.options.workers)
    with tqdm(
        outcomes, desc="converting", unit="episode", total=len(listed), initial=len(listed) - len(pending)
    ) as bar:
        for outcome in bar:
            if outcome.reason:
                skipped.append((outcome.number, Skipped(listed[outcome.number].id, outcome.reason)))
            if len(skipped) >= HOPELESS and not plan.options.skip_bad:
                outcomes.close()
                break
    return [item for _, item in sorted(skipped, key=lambda pair: pair[0])]


def _pack(
    plan: Plan,
    spool: Spool,
    choice: EncoderChoice | None,
    record: EncoderRecord,
    scalings: dict[str, Any],
    numbers: list[int],
    skipped: list[Skipped],
) -> list[Skipped]:
    provenance = provenance_of(
        plan.source.layout, plan.listed, skipped=[dataclasses.asdict(item) for item in skipped], **{KEY: scalings}
    )
    packing = Packing(
        encoder=record,
        actions_per_frame=plan.source.units.actions_per_frame,
        text=_text(plan, spool, numbers),
        codec=choice.codec if choice else None,
        payload=plan.options.payload,
        compression=plan.options.compression,
        provenance=provenance,
    )
    spool.discard(_FINISHED)
    bar = tqdm(numbers, desc="packing", unit="episode")
    return pack(spool.directory / _FINISHED, spool, plan.listed, packing, numbers=bar)


def _text(plan: Plan, spool: Spool, numbers: list[int]) -> TextEncoder | None:
    if plan.text == SOURCE:
        return given_text(texts_of(spool, plan.listed, numbers), plan.source.empty_text())
    return open_text(plan.text, {plan.listed[number].instruction for number in numbers})


def _fitted(plan: Plan, spool: Spool) -> EncoderChoice | None:
    if plan.options.encoder != STAND_IN:
        return plan.choice
    codec = spool.kept("codec.safetensors", lambda: fit_stand_in(plan.source, plan.listed, plan.options))
    return EncoderChoice(STAND_IN, codec)


def _refused(plan: Plan, spool: Spool, skipped: list[Skipped], record: EncoderRecord) -> Report:
    report = plan.report()
    return dataclasses.replace(
        report,
        state="refused",
        encoder=described(record),
        skipped=tuple(skipped),
        notes=report.notes | counted(spool.notes()),
    )


def _complete(plan: Plan, spool: Spool) -> Report:
    """The report of a store that is in its place; the spool goes."""
    store, report = open_store(_place(plan.options.store)), plan.report()
    report = dataclasses.replace(
        report,
        state="complete",
        encoder=described(store.manifest.encoder),
        text=store.manifest.text.name if store.manifest.text else "none",
        latent_frames=int(store.index.extents["video_latents"].sum()),
        skipped=skipped_of(store.manifest),
        notes=report.notes | counted(spool.notes()),
    )
    spool.remove()
    return report


def _is_published(spool: Spool, target: str) -> bool:
    """Whether only the tidying is left: an earlier call put this very store in its place."""
    marker = spool.directory / _PUBLISHED
    try:
        return marker.exists() and open_store(_place(target)).fingerprint == marker.read_text()
    except InputError:
        return False


def _place(target: str) -> epath.Path | Path:
    return epath.Path(target) if is_remote(target) else Path(target).expanduser().absolute()
