"""The figures in the docstrings of the large configurations are those of their plans. Minutes each: `long`.

.ci/aot -m "aot and long"
"""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CONFIGS = Path(__file__).parents[2] / "configs"
READY = importlib.util.find_spec("jax_plugins") is not None and os.environ.get("XLA_FLAGS") == ""

pytestmark = [
    pytest.mark.aot,
    pytest.mark.long,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not READY, reason="run by .ci/aot, in an environment of its own"),
]


@pytest.mark.parametrize(("name", "topology"), [
    ("libero_5b", ["--devices", "8"]),
    ("libero_5b", ["--devices", "64", "--hosts", "8"]),
    ("research_300m", ["--devices", "8"]),
])  # fmt: skip
def test_the_plan_is_what_the_docstring_says(name, topology, tmp_path):
    config, out = CONFIGS / f"{name}.py", tmp_path / "plan.json"
    words = ["--config", str(config), "--data", str(CONFIGS / "libero.json"), "--target", "h100", "--out", str(out)]
    command = [sys.executable, "-m", "wam_jax.plan", *words, *topology]
    subprocess.run(command, check=True, capture_output=True, timeout=1000)
    memory = json.loads(out.read_text())["memory"]
    said = " ".join(config.read_text().split())
    for part, figure in (
        ("parameters", r"parameters ([\d.]+)"),
        ("optimizer", r"optimizer ([\d.]+)"),
        ("peak", r"([\d.]+) in all"),
    ):
        found = re.search(figure, said)
        assert found
        assert memory[part] / 2**30 == pytest.approx(float(found[1]), abs=0.06), part
