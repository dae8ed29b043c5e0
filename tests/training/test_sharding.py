"""The rule of parameter shardings, the mesh, and rows on it."""

from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from tests.training.fakes import LinearPolicy
from tests.training.rigs import OPTIMIZER
from wam_jax.errors import InputError
from wam_jax.training.mesh import check_world_size, make_mesh, process_rows, put_rows
from wam_jax.training.optimizer import make_optimizer
from wam_jax.training.sharding import parameter_spec
from wam_jax.training.state import abstract_state


@pytest.mark.parametrize(
    ("path", "shape", "spec"),
    [
        ("video_expert/patch_embedding/kernel", (16, 64), P(None, "fsdp")),
        ("video_expert/patch_embedding/kernel", (64, 16), P("fsdp", None)),
        ("video_expert/patch_embedding/kernel", (66, 16), P(None, "fsdp")),
        ("video_expert/patch_embedding/kernel", (3, 5), P()),
        ("video_expert/blocks/feed_forward/hidden/kernel", (32, 8, 16), P(None, None, "fsdp")),
        ("video_expert/blocks/feed_forward/hidden/kernel", (4, 3, 5), P()),
        ("video_expert/blocks/self_attention/query/bias", (4, 64), P()),
        ("video_expert/blocks/modulation/table", (4, 6, 64), P()),
    ],
)
def test_kernels_are_split_and_layers_never(path: str, shape: tuple[int, ...], spec: P) -> None:
    assert parameter_spec(path, shape, fsdp=4) == spec


def test_moments_lie_like_their_parameters() -> None:
    abstract = abstract_state(make_mesh((1, -1)), LinearPolicy(), make_optimizer(OPTIMIZER, num_steps=3))
    adam = abstract.opt_state[1]
    assert adam.count.sharding.spec == P()
    assert adam.mu["head"]["kernel"].sharding == abstract.params["head"]["kernel"].sharding
    assert abstract.params["head"]["kernel"].sharding.spec == P("fsdp", None)


def test_a_mesh_takes_all_devices() -> None:
    assert dict(make_mesh((-1, 1)).shape) == {"data": jax.device_count(), "fsdp": 1}
    with pytest.raises(InputError, match=r"trainer\.mesh = \(7, 3\): must multiply to"):
        make_mesh((7, 3))


def test_the_number_of_devices_can_be_demanded() -> None:
    check_world_size(None)
    check_world_size(jax.device_count())
    with pytest.raises(InputError, match="--expected-world-size = 7: 1 devices are there"):
        check_world_size(7)


def test_a_batch_keeps_its_values_and_scalars_hold_for_all_rows() -> None:
    mesh = make_mesh((-1, 1))
    assert process_rows(mesh) == range(1)
    batch: Any = put_rows(mesh, {"rows": np.arange(4.0).reshape(1, 4), "seed": np.uint32(3), "absent": None})
    np.testing.assert_array_equal(batch["rows"], [[0, 1, 2, 3]])
    assert batch["rows"].sharding.spec == P(("data", "fsdp"))
    assert (int(batch["seed"]), batch["absent"]) == (3, None)
