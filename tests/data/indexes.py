"""Indexes without a store behind them, for everything that plans."""

from collections.abc import Mapping, Sequence

import numpy as np

from tests.support.stores import tiny_encoder
from wam_jax.config.schema import Config
from wam_jax.data.construction.sample_text import text_lengths
from wam_jax.data.drawing.draw_law import DrawLaw, draw_law
from wam_jax.data.drawing.draws import DrawTable
from wam_jax.data.storage.index import Index, index_table
from wam_jax.data.storage.manifest import Dims, Manifest, PayloadRecord
from wam_jax.keys import Phase


def make_index(
    frames: Sequence[int],
    *,
    splits: Sequence[str | None] | None = None,
    sources: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    extents: Mapping[str, Sequence[int | None]] | None = None,
) -> Index:
    """One episode `ep0`, `ep1`, ... for each length, A = 2; `extents` adds fields."""
    rows = []
    for i, count in enumerate(frames):
        more = {f"extent_{name}": values[i] for name, values in (extents or {}).items()}
        rows.append(
            {
                "id": f"ep{i}",
                "source": sources[i] if sources else "none",
                "task": tasks[i] if tasks else "none",
                "instruction": "",
                "fps": 20.0,
                "split": splits[i] if splits else None,
                "shard": 0,
                "record": i,
                "num_bytes": 0,
                "sha256": bytes(32),
                "extent_video_latents": count,
                "extent_actions": 2 * count,
            }
            | more
        )
    return Index(index_table(rows))


def make_manifest(count: int = 1, *, text_dim: int | None = None) -> Manifest:
    """A manifest of `count` episodes in the sizes of `tiny_config`, without text."""
    return Manifest(
        schema="none",
        num_episodes=count,
        actions_per_frame=2,
        dims=Dims(channel=3, height=2, width=2, action_dim=2, state_dim=3, text_dim=text_dim),
        encoder=tiny_encoder(3),
        text=None,
        payload=PayloadRecord("array_record"),
        index_fingerprint="",
    )


def make_law(config: Config, index: Index, phase: Phase = Phase.TRAIN) -> DrawLaw:
    """The law of draws from all episodes of an index."""
    tokens = text_lengths(index, make_manifest(), max_text_tokens=config.backbone.max_text_tokens)
    return draw_law(config, index, np.arange(len(index)), phase, text_tokens=tokens)


def equal(left: DrawTable, right: DrawTable) -> bool:
    """Whether two tables agree in every property."""
    return all(np.array_equal(array, right.columns()[name]) for name, array in left.columns().items())
