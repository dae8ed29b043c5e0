"""From recordings to a store: fitting the codec, encoding, writing, measuring what the codec loses."""

from collections.abc import Iterable, Sequence

import numpy as np

from wam_jax.data.actions import anchors
from wam_jax.data.assemble import assemble_sample
from wam_jax.data.codec import GROUP, KltCodec, pad_frames, psnr
from wam_jax.data.codec_fit import fit_codec
from wam_jax.data.recording.rollout import Recording
from wam_jax.data.recording.schedule import Spooled
from wam_jax.data.recording.simulator import FPS
from wam_jax.data.recording.tasks import instruction_of
from wam_jax.data.units import Units
from wam_jax.data.writer import Episode, StoreWriter

SOURCE = "metaworld"
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


def encode_recording(recording: Recording, codec: KltCodec, *, latent_bits: int | None = None) -> dict[str, np.ndarray]:
    """The arrays of one episode; condition latents are the codes of the anchor frames, each alone.

    `latent_bits` is that of `round_latents`.
    """
    video = codec.encode(pad_frames(recording.frames))
    anchored = recording.frames[anchors(video.shape[1], len(recording.frames))]
    return assemble_sample(
        video_latents=round_latents(video, latent_bits),
        condition_latents=round_latents(codec.encode_frame(anchored), latent_bits),
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
    """Encodes and adds every recording.

    Args:
        validation: the recordings that validate; the others train.
        latent_bits: see `round_latents`.
    Returns:
        Split to the mean over episodes of the reconstruction's PSNR in dB.
    """
    quality: dict[str, list[float]] = {}
    for spooled in recordings:
        recording, split = spooled.load(), "val" if spooled in validation else "train"
        arrays = encode_recording(recording, codec, latent_bits=latent_bits)
        episode = Episode(
            id=f"{spooled.task}-{spooled.seed:06d}",
            source=SOURCE,
            task=spooled.task,
            instruction=instruction_of(spooled.task, spooled.seed),
            fps=FPS,
            split=split,
        )
        writer.add(episode, arrays)
        decoded = codec.decode(arrays["video_latents"])[: len(recording.frames)]
        quality.setdefault(split, []).append(float(psnr(decoded, recording.frames).mean()))
    return {split: float(np.mean(values)) for split, values in quality.items()}
