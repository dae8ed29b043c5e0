"""Reading compiled programs: how often instructions run, and what is sent over which axes."""

import jax
import jax.numpy as jnp
import pytest

from wam_jax.planning.collectives import Collective, collectives, merged
from wam_jax.planning.hlo import Instruction, instructions

TEXT = """\
HloModule jit_step

%add (a: f32[], b: f32[]) -> f32[] {
  ROOT %sum = f32[] add(%a, %b)
}

%inner (p.1: f32[4]) -> f32[4] {
  %all-gather.1 = bf16[16]{0} all-gather(%p.1), replica_groups=FSDP, dimensions={0}
}

%body (p.2: (s32[], f32[4])) -> (s32[], f32[4]) {
  %while.2 = (s32[], f32[4]{0}) while(%p.2), condition=%cond, body=%inner, backend_config={"known_trip_count":{"n":"3"}}
  %reduce-scatter-start = ((f32[8]{0}), (f32[2]{0}, pred[4]{0})) reduce-scatter-start(%x), replica_groups=FSDP
  %reduce-scatter-done = (f32[2]{0}, /*index=1*/pred[4]{0}) reduce-scatter-done(%reduce-scatter-start)
}

%cond (p.3: (s32[], f32[4])) -> pred[] {
  ROOT %less = pred[] compare(%i, %n), direction=LT
}

ENTRY %main (p.4: f32[4]) -> f32[4] {
  %while.1 = (s32[], f32[4]{0}) while(%t), condition=%cond, body=%body, backend_config={"known_trip_count":{"n":"5"}}
  %all-reduce = f32[10]{0} all-reduce(%y), replica_groups=mesh['data'=2,'fsdp'=4] {'data','fsdp'}, to_apply=%add
  %alone = f32[10]{0} all-reduce(%y), replica_groups=mesh['data'=2,'one'=1] {'one'}, to_apply=%add
}
"""
MESH = {"data": 2, "fsdp": 4, "one": 1}
TEXT = TEXT.replace("FSDP", "mesh['data'=2,'fsdp'=4] {'fsdp'}")


def times(name: str) -> int:
    return {instruction.name: count for instruction, count in instructions(TEXT)}[name]


@pytest.mark.parametrize(("name", "expected"), [("while.1", 1), ("while.2", 5), ("all-gather.1", 15)])
def test_what_is_in_a_loop_is_run_as_often_as_the_loop(name, expected):
    assert times(name) == expected


@pytest.mark.parametrize(
    ("shape", "expected"),
    [("f32[8,2]{1,0}", 64), ("(bf16[3]{0}, /*index=1*/pred[4]{0}, s32[])", 14), ("f8e4m3fn[5]", 5), ("token[]", 0)],
)
def test_bytes_of_a_printed_shape(shape, expected):
    assert Instruction("name", shape, "copy", "").result_bytes == expected


def test_what_is_sent_by_kind_and_axes():
    assert collectives(TEXT, MESH) == [
        Collective("all-gather", "fsdp", 15, 15 * 24),
        Collective("reduce-scatter", "fsdp", 5, 5 * 3 * 12),
        Collective("all-reduce", "data+fsdp", 1, 70),
    ]


def test_groups_that_the_program_does_not_name_are_all_devices():
    text = TEXT.replace("replica_groups=mesh['data'=2,'fsdp'=4] {'data','fsdp'}", "replica_groups={}")
    assert Collective("all-reduce", "?", 1, 70) in collectives(text, MESH)


def test_merging_adds_up_and_a_multiple_is_so_many():
    one = Collective("all-gather", "fsdp", 2, 10)
    assert merged([one, one * 2, Collective("all-reduce", "data", 1, 50)]) == [
        Collective("all-reduce", "data", 1, 50),
        Collective("all-gather", "fsdp", 6, 30),
    ]


def test_a_real_program():
    def step(x: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda carry, _: (jnp.sin(carry), None), x, length=7)[0]

    found = [*instructions(jax.jit(step).lower(jnp.ones(3)).compile().as_text() or "")]
    assert any(count == 7 for _, count in found)
