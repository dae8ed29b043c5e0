"""`python -m tests.training.smoke SHORTEST LONGEST DIRECTORY`: two updates of every program on several processes.

A small network in bfloat16 with rematerialised layers and parameters split over two devices, on segments of SHORTEST
to LONGEST frames of 8 x 16 latents with four actions a frame; every sample draws its own length, chunk and window.
Programs are data, so that all of them run what one compiled. Each process writes what it was told of the updates to
DIRECTORY/PROCESS.json.
"""

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import jax

from tests.support.networks import policy_for
from tests.support.runs import tiny_config
from tests.support.stores import write_tiny_store
from wam_jax.config.schema import Config, OptimizerConfig, Route
from wam_jax.data.loader import TrainData
from wam_jax.data.storage.store import Store, open_store
from wam_jax.sequence import Objective
from wam_jax.sequence.programs import PROGRAMS
from wam_jax.training.cluster import connected
from wam_jax.training.mesh import make_mesh, process_rows, put_rows
from wam_jax.training.optimizer import make_optimizer
from wam_jax.training.programs import build_programs
from wam_jax.training.state import abstract_state, initialise

MIXED = "generalist_joint_denoising"
STRICT = ("forward_dynamics", "inverse_dynamics")
ROUTES: tuple[Route, ...] = (
    ("real_demo", "joint", 2),
    ("real_demo", "action_conditioned_video", 1),
    ("real_demo", "video_conditioned_action", 1),
)
NETWORK = {
    "hidden_size": 32,
    "num_layers": 2,
    "num_heads": 2,
    "head_dim": 8,
    "ffn_dim": 64,
    "freq_dim": 8,
    "latent_channels": 4,
    "patch_size": (1, 4, 4),
    "compute_dtype": "bfloat16",
    "remat": "save_attention",
}


def write_store(directory: Path, longest: int) -> Path:
    """Trajectories that are long enough for every segment."""
    lengths, path = [longest, longest + 1, longest + 2] * 2, directory / "store"
    return write_tiny_store(path, lengths, channels=4, height=8, width=16, slots=4, with_condition=False)


def config_of(program: str, shortest: int, longest: int, mode: str = "padded") -> Config:
    """Mixed objectives where the program has several; segments of equal length where the mode is strict."""
    segment = {"mode": "uniform_segment", "max_segment_frames": longest, "chunk_size": 4, "window_size": 8}
    if mode == "padded":
        segment |= {"min_segment_frames": shortest, "randomize_segment_length": True}
    routes = ROUTES if program == MIXED else ()
    return tiny_config(
        construction=segment | {"sample_order_mode": "replacement"},
        batching={"mode": mode, "max_compiled_shapes": 1},
        routing={"routes": routes, "objective_group": 1},
        policy={"program": program, "generalist_mode_text_token": program == MIXED},
        backbone=NETWORK,
        validation={"num_draws": 4},
    )


class Trainer:
    """What the configuration of mixed objectives compiled, for the data of any."""

    def __init__(self, config: Config, store: Store) -> None:
        self.store, self.mesh = store, make_mesh((2, 2))
        self.policy, self.optimizer = policy_for(config, store), make_optimizer(OptimizerConfig(), num_steps=2)
        self.abstract = abstract_state(self.mesh, self.policy, self.optimizer)
        data = self.data(config)
        self.programs = build_programs(
            self.policy,
            self.optimizer,
            abstract=self.abstract,
            batch=data.validation()[0],
            samples_per_update=data.draws_per_step,
            objectives=tuple(Objective),
        )

    def data(self, config: Config) -> TrainData:
        return TrainData(config, self.store, rows=process_rows(self.mesh), ranks=self.mesh.size)

    def two_updates(self, config: Config) -> list[dict[str, float]]:
        state, rows = initialise(self.abstract, self.policy, self.optimizer, seed=0), []
        with contextlib.closing(self.data(config).steps()) as steps:
            for _ in range(2):
                total = self.programs.zeros()
                for batch in next(steps).batches:
                    total = self.programs.gradient(state.params, total, put_rows(self.mesh, batch))
                state, metrics = self.programs.update(state, total)
                rows.append(_numbers(jax.device_get(metrics)))
        return rows


def _numbers(metrics: dict[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in metrics.items() if name == "loss" or name.endswith("/count")}


def main() -> None:
    """Runs all programs as one of the processes."""
    shortest, longest, directory = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    with connected(heartbeat_seconds=100):
        trainer = Trainer(config_of(MIXED, shortest, longest), open_store(directory / "store"))
        cases = {program: config_of(program, shortest, longest) for program in PROGRAMS}
        cases |= {f"strict {program}": config_of(program, longest, longest, "strict") for program in STRICT}
        rows = {name: trainer.two_updates(config) for name, config in cases.items()}
        (directory / f"{jax.process_index()}.json").write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
