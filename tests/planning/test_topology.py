"""Devices that a plan is for: what is refused, in one line, before anything is built."""

import jax
import pytest

from wam_jax.errors import InputError
from wam_jax.planning import topology
from wam_jax.planning.topology import Topology, planned_mesh, prepare_for
from wam_jax.training.mesh import mesh_sizes


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (Topology("h1000", 8), "--target = 'h1000': must be of h100, h200, a100, cpu"),
        (Topology("cpu", 0), "--devices = 0"),
        (Topology("cpu", 4, 3), "--hosts = 3: must divide the 4 devices"),
        (Topology("cpu", 4, 2), "this machine; use 1"),
        (Topology("cpu", 4096), "this process has"),
    ],
)
def test_what_cannot_be_planned_for_is_refused(asked, said):
    jax.devices()
    with pytest.raises(InputError, match=said):
        prepare_for(asked)


def test_without_the_compiler_for_gpus_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(topology, "_WHEELS", ("jax", "no_such.wheel"))
    with pytest.raises(InputError, match=r"no_such.wheel is missing\): UV_PROJECT_ENVIRONMENT=.* uv sync --extra aot"):
        prepare_for(Topology("h100", 8))


@pytest.mark.parametrize(("shape", "sizes"), [((-1, 8), (8, 8)), ((2, -1), (2, 32)), ((64, 1), (64, 1))])
def test_what_is_left_goes_to_the_axis_that_takes_it(shape, sizes):
    assert mesh_sizes(shape, 64) == sizes


@pytest.mark.parametrize("shape", [(-1, 7), (2, 2), (128, -1)])
def test_a_mesh_that_the_devices_do_not_fill_is_refused(shape):
    with pytest.raises(InputError, match=r"trainer\.mesh"):
        mesh_sizes(shape, 64)


def test_memory_of_a_device():
    assert Topology("h100", 8).memory == 80 * 2**30
    assert Topology("cpu", 2).memory == Topology("cpu", 1).memory // 2


def test_inside_the_mesh_is_the_one_in_use():
    with planned_mesh(Topology("cpu", 1), (-1, 1)) as mesh:
        assert jax.sharding.get_abstract_mesh() == mesh.abstract_mesh
    assert mesh.axis_names == ("data", "fsdp")
