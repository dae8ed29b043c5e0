"""Which single change makes a run fit: candidates, shape arithmetic, and what is compiled."""

import dataclasses
import functools
from dataclasses import dataclass, field

import pytest

from wam_jax.config import Config
from wam_jax.errors import InputError
from wam_jax.planning import changes as module
from wam_jax.planning.changes import changed, changes
from wam_jax.planning.planner import Plan

REMAT = "backbone.remat"


def with_usable(plan, share: float):
    """The plan where only this share of its peak may be used."""
    memory = dataclasses.replace(plan.memory, usable=int(share * plan.memory.peak))
    return dataclasses.replace(plan, memory=memory)


@dataclass
class Compiler:
    """In place of `make_plan`: the peak is what may be used, and `excess` more."""

    plan: Plan
    excess: int = 0
    made: list[Config] = field(default_factory=list)

    def __call__(self, config, *_, usable, **__):
        self.made.append(config)
        temporaries = self.plan.memory.gradient_temporaries + usable - self.plan.memory.peak + self.excess
        sizes = {"usable": usable, "gradient_temporaries": temporaries, "update_temporaries": 0}
        return dataclasses.replace(self.plan, memory=dataclasses.replace(self.plan.memory, **sizes))


@pytest.fixture(scope="module")
def run_once():
    """`abstract_run` that makes the run of a configuration only once."""
    return functools.cache(module.abstract_run)


@pytest.fixture
def compiler(monkeypatch, plan, run_once) -> Compiler:
    made = Compiler(plan)
    monkeypatch.setattr(module, "make_plan", made)
    monkeypatch.setattr(module, "abstract_run", run_once)
    return made


def test_changed_fields_are_checked_as_any_others(config):
    assert changed(config, {REMAT: "block", "trainer.mesh": (1, 1)}).backbone.remat == "block"
    with pytest.raises(InputError, match=r"data\.train_batch_size"):
        changed(config, {"data.train_batch_size": 0})


def test_the_first_change_that_should_fit_is_compiled_and_the_others_say_that_they_were_not(
    config, store, plan, compiler
):
    stages = []
    found = changes(config, store, with_usable(plan, 0.999), stages.append)
    assert [change.by for change in found] == ["compiled"] + ["shape arithmetic"] * (len(found) - 1)
    assert all(change.fits for change in found)
    assert [change.kind for change in found] == ["remat", "microbatch", "rung"]
    assert compiler.made[0].backbone.remat == found[0].overrides[REMAT]
    assert any("microbatch" in stage for stage in stages)


def test_an_update_stays_the_same_when_it_is_cut_smaller(config, store, plan, compiler):
    del compiler
    found = {change.kind: change.overrides for change in changes(config, store, with_usable(plan, 0.99), str)}
    assert found["microbatch"] == {"data.train_batch_size": 1, "training.gradient_accumulation_steps": 2}


def test_those_that_the_compiler_refutes_give_way_to_the_next(config, store, plan, compiler):
    compiler.excess = 1
    found = changes(config, store, with_usable(plan, 0.99), str)
    assert {(change.by, change.fits) for change in found} == {("compiled", False)}
    assert len(compiler.made) > len(found) > 1


def test_where_nothing_can_help_nothing_is_proposed(config, store, plan, compiler):
    assert changes(config, store, with_usable(plan, 0.001), str) == []
    assert not compiler.made
