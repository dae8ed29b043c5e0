"""Operations for each real token."""

import pytest

from wam_jax.data.batching.counts import real_tokens
from wam_jax.planning.abstract import abstract_run
from wam_jax.planning.changes import changed
from wam_jax.planning.topology import Topology, planned_mesh
from wam_jax.planning.work import work_of


@pytest.fixture(scope="module")
def works(config, store):
    """The work under each of some settings, and the first of the runs."""
    tiled = {"backbone.attention": "xla"}
    settings = {
        "tiled": tiled,
        "again": tiled | {"backbone.remat": "block"},
        "dense": {"backbone.attention": "reference"},
    }
    with planned_mesh(Topology("cpu", 1), (1, 1)) as mesh:
        runs = {name: abstract_run(changed(config, overrides), store, mesh) for name, overrides in settings.items()}
        return {name: work_of(run) for name, run in runs.items()}, runs["tiled"]


def test_dense_attention_is_matrix_products(works):
    work, _ = works
    assert work["dense"].attention == 0
    assert work["dense"].matmul > work["tiled"].matmul


def test_attention_that_runs_again_takes_two_products_more(works):
    work, _ = works
    assert work["again"].attention == pytest.approx(work["tiled"].attention * 9 / 7)
    assert work["again"].matmul > work["tiled"].matmul


def test_attention_is_that_of_the_tiles_that_the_first_row_visits(works):
    work, run = works
    (row,) = run.data.step_maker()(0).batches
    lists = [each for group in (row.tiles.joint, row.tiles.video_text, row.tiles.action_text) for each in group]
    pairs = sum(int(each.by_query.bounds[0, -1, -1]) * each.query_tile * each.key_tile for each in lists)
    tokens = real_tokens(run.data.planner.plan(0).draws, run.data.constants).tokens
    backbone = run.config.backbone
    width = backbone.num_heads * backbone.head_dim
    assert work["tiled"].attention == pytest.approx(14 * pairs * width * backbone.num_layers / tokens)
