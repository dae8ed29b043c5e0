"""The files in configs/: each loads and says how it is run; those on the shipped data open it and do as they state."""

import ast
import re
from pathlib import Path

import pytest

from wam_jax.config import load
from wam_jax.data.loader import TrainData
from wam_jax.data.storage.store import Store, open_store

ROOT = Path(__file__).parents[2]
FILES = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "configs").rglob("*.py"))]
MODES = [file for file in FILES if Path(file).parent.name == "modes"]
EMBEDDED = [*MODES, *(file for file in FILES if '"embedded:metaworld12"' in (ROOT / file).read_text())]


@pytest.fixture(scope="module")
def store() -> Store:
    return open_store("embedded:metaworld12")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A configuration does not depend on where the command is run."""
    monkeypatch.chdir(tmp_path)


def documentation(file: str) -> str:
    return ast.get_docstring(ast.parse((ROOT / file).read_text())) or ""


def test_there_is_one_file_a_mode() -> None:
    assert {Path(file).stem for file in MODES} == {"strict", "padded", "bucket", "packed", "token_budget"}


@pytest.mark.parametrize("file", FILES)
def test_a_shipped_configuration_loads(file: str) -> None:
    assert load(str(ROOT / file)).config.name.replace("-", "_") == Path(file).stem


@pytest.mark.parametrize("file", EMBEDDED)
def test_a_configuration_of_the_shipped_data_opens_them(file: str, store: Store) -> None:
    config = load(str(ROOT / file)).config
    assert config.data.store == "embedded:metaworld12"
    data = TrainData(config, store, rows=range(1))
    assert data.planner.plan(0).draws.present.sum() == data.draws_per_step
    assert data.validation_draws.present.sum() == config.validation.num_draws


@pytest.mark.parametrize("file", FILES)
def test_a_shipped_configuration_says_how_it_is_run(file: str) -> None:
    assert re.search(rf"\b{re.escape(file)}\b", documentation(file))


@pytest.mark.parametrize("file", MODES)
def test_a_mode_reaches_the_utilisation_that_it_states(file: str, store: Store) -> None:
    config, text = load(str(ROOT / file)).config, " ".join(documentation(file).split())
    found = re.search(r"(\d\.\d\d) of (them|the token slots are real)", text)
    assert found is not None
    shapes = TrainData(config, store, rows=range(1)).shapes
    assert shapes.expected.utilisation == pytest.approx(float(found[1]), abs=0.006)
    assert "Refused:" in text


def test_the_modes_differ_in_their_batching_alone() -> None:
    configs = {Path(file).stem: load(str(ROOT / file)).config for file in MODES}
    packed = configs.pop("packed")
    del configs["strict"]  # It cuts segments, too.
    assert {packed.data.batching.mode, *(c.data.batching.mode for c in configs.values())} == {
        "packed", "padded", "bucket",
    }  # fmt: skip
    for config in configs.values():
        assert (config.policy, config.training, config.backbone) == (packed.policy, packed.training, packed.backbone)
        assert config.data.sample_construction == packed.data.sample_construction
