"""docs/data-format.md: its example runs as it stands."""

import re
from pathlib import Path

from wam_jax.data.inspection.verify import find_problems
from wam_jax.data.storage.fields import FIELDS
from wam_jax.data.storage.store import open_store

DOCUMENT = (Path(__file__).parents[2] / "docs" / "data-format.md").read_text()


def test_the_example_writes_a_sound_store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
    exec(compile(example, "data-format.md", "exec"), {})
    store = open_store("my_store")
    assert list(find_problems(store, payloads=True)) == []
    assert store.index.extents["actions"].tolist() == [20] * 8


def test_every_field_is_in_the_table():
    assert all(f"`{field.name.removesuffix('_mask')}" in DOCUMENT for field in FIELDS)
