"""Of a batch-invariant recipe not one bit may differ from the draws alone on tiles; of any other, many do."""

import dataclasses

import pytest

from wam_jax.config.schema import NumericsConfig
from wam_jax.verification import gates
from wam_jax.verification.report import as_text
from wam_jax.verification.run import Verifier


@pytest.mark.slow
def test_the_bits_of_a_batch_invariant_recipe_are_checked(recipe):
    config, store = recipe
    data = dataclasses.replace(config.data, batching=dataclasses.replace(config.data.batching, tile_alignment=16))
    invariant = dataclasses.replace(config, data=data, numerics=NumericsConfig(batch_invariant=True))
    found = Verifier(invariant, store, draws=2, precision="float32").verify(["padded", "packed"], trace=False)
    assert found.passed, as_text(found)
    assert [mode.checks[-1].quantity for mode in found.modes] == ["bits", "bits"]
    assert "0 values differ from the draws alone on the same tiles" in as_text(found)


def test_without_the_mode_bits_differ_and_are_not_checked(verifier, runs):
    checks = verifier.compare(runs, trace=False).modes[0].checks
    assert "bits" not in {check.quantity for check in checks}
    alone = verifier._quantities(verifier._alone["float32"])
    assert not gates.check_bits(verifier._quantities(runs["packed"]), alone).passed
