"""Errors and gates, by hand: item by item, none by luck, nothing that is not finite passes."""

import math

import numpy as np
import pytest

from wam_jax.verification import gates
from wam_jax.verification.gates import FLOAT32_FACTOR, HALF_FACTOR, LEAST_ERROR, Error, Item

DRAW = (0, 0, 3)
A, B, C = (Item(DRAW, name) for name in "abc")


def _items(**values):
    return {Item(DRAW, name): np.asarray(value, np.float64) for name, value in values.items()}


def test_errors_are_relative_to_the_item():
    found = gates.errors(_items(a=[3.0, 5.0], b=100.0), _items(a=[3.0, 4.0], b=110.0))
    assert found[A] == pytest.approx((1 / 5, 1 / 4))
    assert found[B] == pytest.approx((10 / 110, 10 / 110))


def test_an_item_that_is_next_to_nothing_is_held_against_the_whole():
    found = gates.errors(_items(a=1e-9, b=1.0), _items(a=0.0, b=1.0))
    assert found[A].relative == pytest.approx(1e-3, rel=1e-6)


def test_the_whole_is_that_of_the_draw():
    of_update, zero, one = Item(None, "a"), np.zeros(()), np.ones(())
    assert gates.errors({of_update: 1e-9 * one, B: one}, {of_update: zero, B: one})[of_update].relative > 1e100


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_infinitely_far(wrong):
    assert gates.errors(_items(a=[1.0, wrong]), _items(a=[1.0, 1.0]))[A] == (math.inf, math.inf)
    assert gates.errors(_items(a=[1.0, 1.0]), _items(a=[1.0, wrong]))[A] == (math.inf, math.inf)


def test_another_size_is_infinitely_far():
    assert gates.errors(_items(a=[1.0, 1.0]), _items(a=[1.0, 1.0, 1.0]))[A].relative == math.inf


def test_the_gate_of_float32():
    measured = {A: Error(1e-5, 2e-5), B: Error(1e-9, 1e-9), C: Error(1e-5, 1e-5)}
    allowed = gates.gates(measured, None)
    assert allowed[A] == allowed[B] == pytest.approx((FLOAT32_FACTOR * 1e-5, FLOAT32_FACTOR * 2e-5))
    assert allowed[C].relative == allowed[A].relative
    assert gates.gates({A: Error(0.0, 0.0)}, None)[A].relative == FLOAT32_FACTOR * LEAST_ERROR


def test_no_item_costs_less_than_the_worst_in_half_precision():
    none = {A: Error(0.0, 0.0), B: Error(0.0, 0.0), C: Error(0.0, 0.0)}
    allowed = gates.gates(none, {A: Error(1e-2, 1e-1), B: Error(1e-3, 1e-3), C: Error(0.7, 0.7)})
    assert [allowed[item].relative for item in (A, B, C)] == pytest.approx([2e-2, 2e-2, 1.4], rel=1e-3)


def test_no_item_of_an_update_costs_less_than_the_worst_that_is_judged():
    measured = {A: Error(1e-4, 1e-4), B: Error(1e-9, 1e-9), C: Error(0.3, 0.3)}
    allowed = gates.gates(measured, None, least="worst")
    assert [allowed[item].relative for item in (A, B, C)] == pytest.approx([8e-4, 8e-4, 2.4])


def test_the_gate_of_half_precision():
    allowed = gates.gates({A: Error(0.0, 0.0)}, {A: Error(1e-2, 3e-2)})[A]
    least = FLOAT32_FACTOR * LEAST_ERROR
    assert allowed == pytest.approx((HALF_FACTOR * 1e-2 + least, HALF_FACTOR * 3e-2 + least))


def _check(found, *, largest=False, **allowed):
    reference = _items(a=1.0, b=1.0, c=1.0)
    return gates.check(
        "x", _items(**found), reference, {Item(DRAW, n): Error(*g) for n, g in allowed.items()}, largest=largest
    )


GATES = {"a": (1e-2, 1e-2), "b": (1e-4, 1e-4), "c": (2.0, 2.0)}


def test_every_item_has_its_own_gate():
    assert _check({"a": 1.005, "b": 1.00005, "c": 1.0}, **GATES).passed
    found = _check({"a": 1.005, "b": 1.001, "c": 1.0}, **GATES)
    assert (found.passed, found.worst, found.differing) == (False, B, 2)
    assert found.ratio == pytest.approx(10)
    assert found.gate == {"relative": 1e-4}


def test_what_rounding_decides_is_not_judged_but_named():
    found = _check({"a": 1.0, "b": 1.0, "c": -5.0}, **GATES)
    assert (found.passed, found.unjudged, found.items) == (True, [C], 3)


def test_the_largest_difference_counts_in_half_precision_only():
    narrow = GATES | {"b": (1e-2, 1e-5)}
    assert _check({"a": 1.0, "b": 1.001, "c": 1.0}, **narrow).passed
    found = _check({"a": 1.0, "b": 1.001, "c": 1.0}, largest=True, **narrow)
    assert (found.passed, found.gate) == (False, {"relative": 1e-2, "largest": 1e-5})


def test_a_kind_that_rounding_decides_leaves_the_other():
    wide = GATES | {"b": (1e-4, 1.5)}
    found = _check({"a": 1.0, "b": 1.001, "c": 1.0}, largest=True, **wide)
    assert (found.passed, found.worst, found.gate) == (False, B, {"relative": 1e-4})


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_nothing_that_is_not_finite_passes(wrong):
    assert not _check({"a": wrong, "b": 1.0, "c": 1.0}, **GATES).passed
    assert gates.not_finite({"x": _items(a=[1.0, wrong], b=1.0)}) == [("x", A)]


def test_bits_are_bits():
    found = gates.check_bits({"x": _items(a=[0.0, 1.0])}, {"x": _items(a=[-0.0, 1.0])})
    assert (found.passed, found.differing) == (False, 1)
    assert gates.check_bits({"x": _items(a=[0.0, 1.0])}, {"x": _items(a=[0.0, 1.0])}).passed
