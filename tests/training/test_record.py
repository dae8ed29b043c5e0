"""What run.json and a checkpoint say of a run, and what must not differ when it is resumed."""

import dataclasses
import json
from pathlib import Path

import pytest

from tests.support.runs import tiny_config
from wam_jax.errors import InputError
from wam_jax.training.locate import CheckpointRef, Json
from wam_jax.training.phases import DataPhase
from wam_jax.training.record import changed_fields, check_contract, checkpoint_meta, run_record, write_run_record
from wam_jax.training.start import Start

CONFIG = tiny_config()
REF = CheckpointRef(Path("/r/checkpoints"), 4, "--resume-from")


def record(start: Start, source: Json | None = None, **overrides: int) -> Json:
    parts: Json = {"parameters": {"total": 3}, "data": {}, "shapes": {"rungs": []}}
    return run_record(start, CONFIG, overrides=overrides, source_meta=source, **parts)


def fresh(workdir: Path = Path("/r")) -> Start:
    return Start(workdir, "id", None, None, None)


def test_a_record_names_everything_a_result_depends_on() -> None:
    made = record(fresh(), seed=3)
    launch = made["launches"][0]
    assert made["config"]["policy"]["program"] == "joint"
    assert made["parent"] is None
    assert launch["overrides"] == {"seed": 3}
    assert launch["versions"]["jax"][0].isdigit()
    assert launch["devices"]["count"] >= 1
    assert launch["git"] is None or len(launch["git"]["commit"]) == 40


def test_a_resumed_run_keeps_its_launches_and_says_what_changed() -> None:
    first = record(fresh())
    meta = {"config": dataclasses.asdict(tiny_config(training={"num_steps": 7})), "run_id": "id"}
    again = record(Start(Path("/r"), "id", REF, None, first), source=json.loads(json.dumps(meta)))
    assert [launch["from_step"] for launch in again["launches"]] == [0, 4]
    assert again["launches"][1]["changed"] == {"training.num_steps": [7, 4]}
    assert again["parent"] is None


def test_another_run_knows_its_parent() -> None:
    meta = {"config": dataclasses.asdict(CONFIG), "run_id": "old"}
    branch = record(Start(Path("/s"), "new", REF, None, None), source=meta)
    assert branch["parent"] == {"how": "resumed", "run_id": "old", "path": "/r/checkpoints/4", "step": 4}
    taken = record(Start(Path("/s"), "new", None, REF, None), source=meta)
    assert taken["parent"]["how"] == "initialised"
    assert taken["launches"][0]["from_step"] == 0


def test_a_checkpoint_knows_the_position_in_the_data() -> None:
    meta = checkpoint_meta(record(fresh()), {"seed": 0}, DataPhase(1, 3, 100), samples_per_update=6)(5)
    assert (meta["step"], meta["next_draw"], meta["run_id"], meta["data_contract"]) == (5, 630, "id", {"seed": 0})
    assert DataPhase(**meta["data_phase"]) == DataPhase(1, 3, 100)


def test_a_record_is_written_as_json(tmp_path: Path) -> None:
    made = record(fresh(tmp_path))
    write_run_record(tmp_path / "run", made)
    assert json.loads((tmp_path / "run" / "run.json").read_text()) == json.loads(json.dumps(made))
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["run.json"]


def test_the_same_contract_passes_whatever_json_made_of_it() -> None:
    contract = {"sizes": (1, 2), "split": {"source": "auto"}}
    check_contract(REF, {"data_contract": json.loads(json.dumps(contract))}, contract)


def test_every_difference_of_a_contract_is_listed() -> None:
    stored = {"seed": 1, "split": {"source": "auto", "val_fraction": 0.1}}
    with pytest.raises(InputError) as error:
        check_contract(REF, {"data_contract": stored}, {"seed": 2, "split": {"source": "hash", "val_fraction": 0.1}})
    assert "seed was 1 and is 2; split.source was 'auto' and is 'hash'" in str(error.value)
    assert "val_fraction" not in str(error.value)


def test_tuples_of_a_configuration_are_no_change() -> None:
    assert changed_fields(json.loads(json.dumps(dataclasses.asdict(CONFIG))), CONFIG) == {}
