"""One episode as a picture: frames over time, its actions and its states beneath, on one axis of raw frames."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wam_jax.data.construction.actions import anchors
from wam_jax.data.encoders.codec import codec_of
from wam_jax.data.storage.store import Store
from wam_jax.errors import InputError

SHOWN = 10
"""Frames of the strip."""


def find_episode(store: Store, name: str) -> int:
    """Position in the index of an episode, by its id; raises InputError."""
    found = np.flatnonzero(store.index.ids == name)
    if not found.size:
        raise InputError("--episode", name, f"an id of the store, such as {store.index.ids[0]!r}")
    return int(found[0])


def draw_episode(store: Store, episode: int, path: Path) -> None:
    """Draws an episode into an image file; raises InputError where it cannot be read."""
    arrays, units = store.read(episode), store.manifest.units
    images, frames = strip(store, arrays["video_latents"])
    times = anchors(arrays["video_latents"].shape[1], 1 << 30, units.temporal_stride)[frames]
    rows = 2 + ("state" in arrays)
    figure = Figure(figsize=(1.3 * SHOWN, 1.6 + 2.0 * (rows - 1)), layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=[1.3, 2.0 * (rows - 1)])
    for axes, image, time in zip(parts[0].subplots(1, len(images), squeeze=False)[0], images, times, strict=True):
        axes.imshow(image)
        axes.set(xticks=[], yticks=[], title=f"{time}")
    index = store.index
    parts[0].suptitle(
        f"{index.ids[episode]}: {index.instructions[episode]}  ({index.fps[episode]:g} frames per second)"
    )
    plots = parts[1].subplots(rows - 1, 1, sharex=True, squeeze=False)[:, 0]
    _draw_actions(plots[0], arrays, units.actions_per_frame, units.temporal_stride)
    if "state" in arrays:
        _draw(plots[1], np.arange(len(arrays["state"])), _masked(arrays, "state"), "state")
    plots[-1].set_xlabel("raw frame")
    for axes in plots:
        for time in times:
            axes.axvline(time, color="0.85", zorder=0, linewidth=1)
    figure.savefig(path, dpi=110)


def strip(store: Store, latents: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """Up to `SHOWN` frames at anchors, evenly spaced, and which latent frames they are.

    A store that keeps its codec shows decoded frames, any other the three strongest components of its latents.
    """
    T, codec = latents.shape[1], codec_of(store)
    frames = np.unique(np.linspace(0, T - 1, min(SHOWN, T)).round().astype(int))
    if codec is None:
        return list(false_colours(latents)[frames]), frames
    decoded = codec.decode(latents)
    return list(decoded[anchors(T, len(decoded), store.manifest.encoder.temporal_stride)[frames]]), frames


def false_colours(latents: np.ndarray) -> np.ndarray:
    """`[C, T, h, w]` to `[T, h, w, 3]` float32 in 0..1: its principal components as colours."""
    C, T, h, w = latents.shape
    cells = latents.reshape(C, -1).T.astype(np.float64)
    cells = cells - cells.mean(axis=0)
    _, vectors = np.linalg.eigh(cells.T @ cells)
    parts = np.zeros((len(cells), 3))
    parts[:, : min(3, C)] = cells @ vectors[:, ::-1][:, :3]
    low, high = np.quantile(parts, [0.01, 0.99], axis=0)
    return np.clip((parts - low) / np.maximum(high - low, 1e-9), 0, 1).reshape(T, h, w, 3).astype(np.float32)


def _draw_actions(axes: Axes, arrays: dict[str, np.ndarray], slots: int, stride: int) -> None:
    values = _masked(arrays, "actions")
    # Slot j of group k acts from the anchor of frame k - 1 on; group 0 has nothing before it.
    starts = (np.arange(len(values)) - slots) * stride / slots
    _draw(axes, starts, values, "actions", steps=True)


def _masked(arrays: dict[str, np.ndarray], name: str) -> np.ndarray:
    values, mask = arrays[name].astype(np.float64), arrays.get({"actions": "action_mask"}.get(name, f"{name}_mask"))
    return values if mask is None else np.where(mask > 0, values, np.nan)


def _draw(axes: Axes, times: np.ndarray, values: np.ndarray, name: str, *, steps: bool = False) -> None:
    for dim in range(values.shape[1]):
        axes.plot(times, values[:, dim], drawstyle="steps-post" if steps else "default", linewidth=1, label=str(dim))
    axes.set_ylabel(name)
    if values.shape[1] <= 10:
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize="small", frameon=False)
