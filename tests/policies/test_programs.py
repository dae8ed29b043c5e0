"""Every program, objective and sequence contract against the restatement, alone; then side by side in mixed rows."""

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from tests.support.cases import AS_TEXT, CASES, FDM, IDM, ROW, TEXT_CASES, Bench, make_bench, write_store
from tests.support.oracle import check_restated
from wam_jax.data.storage.store import Store
from wam_jax.data.transport import RowBatch

NUMBERS = {case.name: number for number, case in enumerate(CASES)}
RESTATED = [case.name for case in CASES if not case.name.endswith("short")]
GIVES_ACTIONS = [case.name for case in CASES if case.objective == FDM or case.name.startswith("forward")]
GIVES_VIDEO = [case.name for case in CASES if case.objective == IDM or case.name.startswith("inverse")]


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    return write_store(tmp_path_factory.mktemp("programs"))


@pytest.fixture(scope="module")
def bench(store) -> Bench:
    return make_bench(store)


@pytest.fixture(scope="module")
def text_bench(store) -> Bench:
    return Bench(store, TEXT_CASES, AS_TEXT)


@pytest.fixture(scope="module")
def rows(bench) -> list[RowBatch]:
    return [bench.batch(range(start, start + ROW), slots=ROW) for start in range(0, len(CASES), ROW)]


def check(bench: Bench, number: int) -> None:
    losses, gradient = bench.alone[number]
    own = {name: value[0] for name, value in losses.items()}
    check_restated(own, gradient, bench.params, bench.config(number), bench.store, bench.draws[number])


@pytest.mark.parametrize("name", RESTATED)
def test_a_sample_alone_equals_the_restatement(bench, name):
    check(bench, NUMBERS[name])


@pytest.mark.parametrize("number", range(len(TEXT_CASES)), ids=[case.name for case in TEXT_CASES])
def test_proprioception_among_the_text_equals_the_restatement(text_bench, number):
    check(text_bench, number)
    assert text_bench.draws.num_proprio.tolist() == [2, 2, 1]


@pytest.mark.parametrize("name", NUMBERS)
def test_a_sample_in_a_mixed_row_is_the_sample_alone(bench, rows, name):
    row, slot = divmod(NUMBERS[name], ROW)
    losses, gradient = bench.run(rows[row], np.eye(ROW)[slot])
    alone, alone_gradient = bench.alone[NUMBERS[name]]
    for kind, value in losses.items():
        np.testing.assert_allclose(value[slot], alone[kind][0], atol=2e-6, rtol=2e-5, err_msg=kind)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=3e-6, rtol=3e-4), gradient, alone_gradient)


def disturbed(batch: RowBatch, slot: int, change) -> RowBatch:
    """The batch with every float of one slot's sample changed, its text among them."""

    def in_slot(array: Any) -> Any:
        if array is None or array.dtype.kind != "f":
            return array
        array = array.copy()
        array[:, slot] = change(array[:, slot])
        return array

    fields = {field.name: in_slot(getattr(batch.samples, field.name)) for field in dataclasses.fields(batch.samples)}
    text = batch.text.copy()
    keys = slice(4 * slot, 4 * slot + 4)
    text[:, keys] = change(text[:, keys])
    return dataclasses.replace(batch, samples=dataclasses.replace(batch.samples, **fields), text=text)


@pytest.mark.parametrize("change", [lambda a: a + 100, lambda a: a - 100], ids=["plus", "minus"])
@pytest.mark.parametrize("slot", range(ROW))
def test_a_peer_changes_nothing_bitwise(bench, rows, slot, change):
    for batch in rows:
        before, gradient = bench.run(batch, np.eye(ROW)[slot - 1])
        after, gradient_after = bench.run(disturbed(batch, slot, change), np.eye(ROW)[slot - 1])
        others = np.arange(ROW) != slot
        for kind, value in before.items():
            np.testing.assert_array_equal(after[kind][others], value[others], kind)
        assert after["loss"][slot] != before["loss"][slot]
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6, rtol=1e-6), gradient_after, gradient)


@pytest.mark.parametrize(("expert", "names"), [("action_expert", GIVES_ACTIONS), ("video_expert", GIVES_VIDEO)])
def test_the_given_stream_has_no_loss_and_its_head_no_gradient(bench, expert, names):
    other = {"action_expert": "video_expert", "video_expert": "action_expert"}[expert]
    loss, mse = {"action_expert": ("action_loss", "action_mse"), "video_expert": ("video_loss", "latent_mse")}[expert]
    assert len(names) == 3
    for name in names:
        losses, gradient = bench.alone[NUMBERS[name]]
        assert losses[loss][0] == losses[mse][0] == 0
        assert all(not leaf.any() for leaf in jax.tree.leaves(gradient[expert]["head"]["projection"]))
        assert all(leaf.any() for leaf in jax.tree.leaves(gradient[other]["head"]["projection"]))


def test_every_case_is_what_its_name_says(bench):
    assert {config.policy.program for config in map(bench.config, range(len(CASES)))} >= {
        name for name in NUMBERS if "_" in name and " " not in name
    }
    assert len(set(bench.draws.chunk_size.tolist())) >= 3
    assert len(set(bench.draws.num_frames.tolist())) == 4
    assert set(bench.draws.prefix_frames.tolist()) == {0, 1}
    assert bench.draws.segment_start.max() > 0
