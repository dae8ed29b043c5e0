"""A checksum sees one flipped bit of any array, and nothing else."""

import jax.numpy as jnp
import numpy as np
import pytest

from wam_jax.training.checksums import checksums


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.int32])
def test_one_flipped_bit_changes_the_sum(dtype: jnp.dtype) -> None:
    values = np.asarray(jnp.arange(12, dtype=dtype).reshape(3, 4))
    flipped = values.copy()
    flipped.view(np.uint8)[1, 3] ^= 4
    assert checksums([jnp.asarray(values)]) == checksums([jnp.asarray(values)])
    assert checksums([jnp.asarray(values)]) != checksums([jnp.asarray(flipped)])


def test_the_sum_is_that_of_the_bit_patterns() -> None:
    values = np.array([1.5, -2.0, 0.0], np.float32)
    tree = {"a": jnp.asarray(values), "b": jnp.zeros((), jnp.int32)}
    assert checksums(tree) == [int(values.view(np.uint32).sum(dtype=np.uint32)), 0]
