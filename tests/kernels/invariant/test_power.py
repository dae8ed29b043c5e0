"""What the tests of bits would find: plain XLA's rows do change with their number, and its weights with the padding."""

import jax
import numpy as np
import pytest

from tests.kernels.invariant.operators import INNER, OPERATORS, SHIPPED, evaluate, operands, value_and_gradients

ROWS, COUNTS = 512, (1, 2, 3, 7, 17, 33, 65, 129)


def differs(name, level):
    """Whether at some row count a row of the plain definition differs from the same among `ROWS`."""
    operator = OPERATORS[name]
    x, upstream, shared = operands(operator, ROWS, "float32")
    run = lambda x: operator.plain(x, *shared)  # noqa: E731
    whole = value_and_gradients(run, upstream, x, level=level)
    for count in COUNTS:
        few = value_and_gradients(run, upstream[:count], x[:count], level=level)
        if any((one != other[:count]).any() for one, other in zip(few, whole, strict=True)):
            return True
    return False


@pytest.mark.parametrize("name", ["addmm", "layer_norm"])
def test_rows_of_plain_operators_change_with_their_number(name):
    assert differs(name, SHIPPED)


def test_the_weights_of_a_plain_product_change_with_rows_of_zeros():
    x, upstream, (b, _) = operands(OPERATORS["addmm"], ROWS, "float32")
    longer = [np.concatenate([part, np.zeros((700, part.shape[1]), part.dtype)]) for part in (x, upstream)]
    gradient = lambda x, upstream: jax.vjp(lambda b: x @ b, b)[1](upstream)[0]  # noqa: E731
    alone, padded = evaluate(gradient, x, upstream, level=SHIPPED), evaluate(gradient, *longer, level=SHIPPED)
    np.testing.assert_allclose(alone, padded, atol=1e-3)
    assert (alone != padded).any()
    assert alone.shape == (INNER, 112)
