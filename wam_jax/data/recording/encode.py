"""From recordings to a store: fitting the codec, encoding, writing, measuring what the codec loses."""

from collections.abc import Iterable, Sequence

import numpy as np

from wam_jax.data.construction.actions import anchors
from wam_jax.data.construction.assemble import assemble_sample
from wam_jax.data.encoders.codec import GROUP, KltCodec, pad_frames, psnr
from wam_jax.data.encoders.codec_fit import fit_codec
from wam_jax.data.recording.branches import Branch
from wam_jax.data.recording.rollout import Recording
from wam_jax.data.recording.simulator import FPS
from wam_jax.data.recording.spool import Spooled
from wam_jax.data.recording.tasks import instruction_of
from wam_jax.data.storage.units import Units
from wam_jax.data.storage.writer import Episode, StoreWriter

SOURCE = "metaworld"
BRANCH_SOURCE = "counterfactual_dynamics"
"""What `data.routing.counterfactual_sources` names by default."""
UNITS = Units(actions_per_frame=GROUP, temporal_stride=GROUP)
"""One action per raw frame."""


def fit_to(recordings: Sequence[Spooled], *, patch: int, channels: int) -> KltCodec:
    """The codec of these recordings, which should be those of the train split."""
    return fit_codec(
        [spooled.raw_frames for spooled in recordings],
        lambda i: recordings[i].load().frames,
        patch=patch,
        channels=channels,
    )


def round_latents(latents: np.ndarray, bits: int | None) -> np.ndarray:
    """Rounds to multiples of 2^-bits, so that compression finds still content; None keeps everything."""
    return latents if bits is None else np.ldexp(np.rint(np.ldexp(latents, bits)), -bits)


def encode_recording(
    recording: Recording, codec: KltCodec, *, anchored: bool, latent_bits: int | None = None
) -> dict[str, np.ndarray]:
    """The arrays of one episode.

    Args:
        anchored: whether to add condition latents, the codes of the anchor frames, each alone.
        latent_bits: that of `round_latents`.
    """
    video, condition = codec.encode(pad_frames(recording.frames)), None
    if anchored:
        frames = recording.frames[anchors(video.shape[1], len(recording.frames))]
        condition = round_latents(codec.encode_frame(frames), latent_bits)
    return assemble_sample(
        video_latents=round_latents(video, latent_bits),
        condition_latents=condition,
        actions=recording.actions,
        states=recording.states,
        units=UNITS,
    )


def write_recordings(
    recordings: Iterable[Spooled],
    codec: KltCodec,
    writer: StoreWriter,
    *,
    validation: set[Spooled],
    latent_bits: int | None = None,
) -> dict[str, float]:
    """Encodes and adds every demonstration.

    Args:
        validation: those that validate; the others train.
        latent_bits: see `round_latents`.
    Returns:
        Split to the mean over episodes of the reconstruction's PSNR in dB.
    """
    quality: dict[str, list[float]] = {}
    for spooled in recordings:
        recording, split = spooled.load(), "val" if spooled in validation else "train"
        arrays = encode_recording(recording, codec, anchored=True, latent_bits=latent_bits)
        writer.add(_episode(spooled, spooled.name, source=SOURCE, split=split), arrays)
        quality.setdefault(split, []).append(_quality(recording, arrays, codec))
    return {split: float(np.mean(values)) for split, values in quality.items()}


def write_branches(
    branches: Iterable[Branch],
    codec: KltCodec,
    writer: StoreWriter,
    *,
    validation: set[Spooled],
    latent_bits: int | None = None,
) -> None:
    """Encodes and adds every branch, in the split and with the text of its parent, without condition latents.

    Conditional samples, the only ones that branches are for, have their own frames as the clean copy.
    """
    for branch in branches:
        split = "val" if branch.parent in validation else "train"
        arrays = encode_recording(branch.video.load(), codec, anchored=False, latent_bits=latent_bits)
        writer.add(_episode(branch.parent, branch.name, source=BRANCH_SOURCE, split=split), arrays)


def _episode(spooled: Spooled, name: str, *, source: str, split: str) -> Episode:
    return Episode(
        id=name,
        source=source,
        task=spooled.task,
        instruction=instruction_of(spooled.task, spooled.seed),
        fps=FPS,
        split=split,
    )


def _quality(recording: Recording, arrays: dict[str, np.ndarray], codec: KltCodec) -> float:
    decoded = codec.decode(arrays["video_latents"])[: len(recording.frames)]
    return float(psnr(decoded, recording.frames).mean())
