"""What a conversion is going to do, as far as metadata and one episode show: the plan, and its dry run."""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wam_jax.data.conversion.content import Listed, Source
from wam_jax.data.conversion.encoders import CHOICES, STAND_IN, EncoderChoice, choose
from wam_jax.data.conversion.finish import Recipe, finish
from wam_jax.data.conversion.naming import list_episodes
from wam_jax.data.conversion.options import UNPLANNED, Options
from wam_jax.data.conversion.pack import listing_digest
from wam_jax.data.conversion.report import Report, Skipped
from wam_jax.data.conversion.sources import open_source
from wam_jax.data.conversion.texts import SOURCE, open_text
from wam_jax.data.conversion.texts import STAND_IN as STAND_IN_TEXT
from wam_jax.data.encoders.codec import codec_from_bytes
from wam_jax.data.storage.manifest import EncoderRecord
from wam_jax.data.storage.normalisation import Normalisation
from wam_jax.errors import InputError


@dataclass(frozen=True)
class Plan:
    """What is to be done, checked as far as metadata show.

    Attributes:
        options: the command's.
        source: the source.
        listed: its episodes, with splits.
        choice: of an encoder; None for given latents, and for a stand-in that is yet to be fitted.
        text: one of `none`, `stand-in`, `source`, or the directory of a cache.
    """

    options: Options
    source: Source
    listed: Sequence[Listed]
    choice: EncoderChoice | None
    text: str

    def facts(self) -> dict[str, Any]:
        """Plain JSON of everything that a converted episode depends on."""
        options = {name: value for name, value in dataclasses.asdict(self.options).items() if name not in UNPLANNED}
        record = self.source.latents or (self.choice.load().record if self.choice else None)
        return {
            **{name: str(value) if isinstance(value, Path) else value for name, value in options.items()},
            "limits": self.options.limits.read_text() if self.options.limits else None,
            "layout": self.source.layout,
            "episodes": listing_digest(self.listed),
            "record": dataclasses.asdict(record) if record else None,
        }

    def report(self) -> Report:
        """The report of a dry run."""
        held_out = any(item.split == "val" for item in self.listed)
        return Report(
            source=self.options.source,
            layout=self.source.layout,
            store=self.options.store,
            state="planned",
            episodes=len(self.listed),
            splits=dict(Counter(item.split or "" for item in self.listed)),
            encoder=described(self.source.latents) if self.source.latents else str(self.options.encoder),
            text=self.text,
            actions_per_frame=self.source.units.actions_per_frame,
            notes={}
            if held_out
            else {"nothing is held out, and training needs some; see --val-fraction": len(self.listed)},
        )


def make_plan(options: Options, cache: Path) -> Plan:
    """Looks at the source's metadata and at everything the options name.

    Args:
        options: the command's.
        cache: a directory for copies of remote files.
    Raises:
        InputError: something cannot work.
    """
    source = open_source(options, cache)
    listed = list_episodes(source, options)
    given = source.latents is not None
    if not given and options.encoder is None:
        raise InputError("--encoder", None, f"the source has video and no latents; {CHOICES}")
    if given and options.encoder is not None:
        raise InputError("--encoder", options.encoder, "none: the source has latents already")
    choice = None if given or options.encoder in (None, STAND_IN) else choose(options.encoder)
    text = options.text or (SOURCE if source.empty_text() is not None and _has_text(source, listed) else STAND_IN_TEXT)
    if text != SOURCE:
        open_text(text, {item.instruction for item in listed})
    elif source.empty_text() is None or not _has_text(source, listed):
        raise InputError("--text", text, "this source has no vectors of its instructions and of the empty prompt")
    return Plan(options, source, listed, choice, text)


def try_first(plan: Plan) -> Report:
    """The report of a dry run, which takes the first episode as far as it gets without fitting anything."""
    report, first = plan.report(), plan.listed[0]
    try:
        content = plan.source.content(first)
        if content.frames is not None and plan.choice is None:
            return dataclasses.replace(
                report, sizes=f"frames {_shape(content.frames)}, actions {_shape(content.actions)}"
            )
        plain = Normalisation("none")
        record = plan.source.latents or record_of(plan.choice)
        recipe = Recipe(plan.source.units, plain, plain, anchored=not plan.options.no_condition_latents, record=record)
        arrays = finish(content, recipe, plan.choice.load() if plan.choice else None, name=first.id)
    except InputError as error:
        return dataclasses.replace(report, skipped=(Skipped(first.id, str(error)),))
    num_bytes = sum(array.nbytes for array in arrays.values())
    sizes = ", ".join(f"{name} {_shape(array)}" for name, array in arrays.items() if not name.endswith("_mask"))
    return dataclasses.replace(report, sizes=f"{sizes}: {num_bytes / 1e6:.2f} MB")


def _shape(array: np.ndarray) -> str:
    return " x ".join(map(str, array.shape))


def record_of(choice: EncoderChoice | None) -> EncoderRecord:
    """What a manifest says of the encoder that was chosen."""
    assert choice is not None
    return codec_from_bytes(choice.codec, source=choice.text).record if choice.codec else choice.load().record


def described(record: EncoderRecord) -> str:
    """An encoder, for people."""
    return f"{record.name} ({record.kind}), stride {record.spatial_stride} x {record.temporal_stride}"


def _has_text(source: Source, listed: Sequence[Listed]) -> bool:
    """Whether the first episode that can be read brings vectors."""
    for item in listed:
        try:
            return source.content(item).text is not None
        except InputError:
            continue
    return False
