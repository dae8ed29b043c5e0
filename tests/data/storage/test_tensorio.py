"""Safetensors by name and by part, local, remote and damaged."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest

from wam_jax.data.storage import tensorio
from wam_jax.data.storage.tensorio import TensorFile, decode_tensors, encode_tensors
from wam_jax.errors import InputError

TENSORS = {
    "half": np.arange(24, dtype=np.float16).reshape(2, 3, 4),
    "brain": np.ones((3, 2), ml_dtypes.bfloat16),
    "empty": np.zeros((0, 3), np.float32),
}
PART = (slice(None), slice(1, 2))


@pytest.fixture(params=["local", "remote"])
def file(request, tmp_path, monkeypatch):
    path = tmp_path / "x.safetensors"
    path.write_bytes(encode_tensors(TENSORS))
    monkeypatch.setattr(tensorio, "is_remote", lambda _: request.param == "remote")
    return TensorFile(path)


def test_tensors_come_back(file):
    assert file.names() == sorted(TENSORS)
    for name, tensor in TENSORS.items():
        assert file.read(name).dtype == tensor.dtype
        np.testing.assert_array_equal(file.read(name), tensor)


def test_parts_come_back(file):
    np.testing.assert_array_equal(file.read("half", PART), TENSORS["half"][PART])
    assert file.read("empty", PART).shape == (0, 1)


def test_an_open_file_pickles_and_is_shared_by_threads(file):
    file.names()
    copy = pickle.loads(pickle.dumps(file))
    with ThreadPoolExecutor(4) as pool:
        for tensor in pool.map(copy.read, ["half"] * 50):
            np.testing.assert_array_equal(tensor, TENSORS["half"])


def test_strided_tensors_are_stored_in_order():
    stored = decode_tensors(encode_tensors({"a": TENSORS["half"].T}), source="memory")
    np.testing.assert_array_equal(stored["a"], TENSORS["half"].T)


def test_the_same_tensors_give_the_same_bytes():
    assert len({encode_tensors(TENSORS, {"id": "a"}) for _ in range(10)}) == 1


@pytest.mark.parametrize("size", [0, 4, -1])
def test_damaged_bytes_are_refused(tmp_path, size):
    data = encode_tensors(TENSORS)[:size]
    with pytest.raises(InputError, match="here = "):
        decode_tensors(data, source="here")
    (tmp_path / "y").write_bytes(data)
    with pytest.raises(InputError, match="complete safetensors file"):
        TensorFile(tmp_path / "y").names()


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="nowhere"):
        TensorFile(tmp_path / "nowhere").names()


def test_integers_are_refused():
    with pytest.raises(InputError, match=r"here: a = 'I64': one of F64, F32, F16, BF16"):
        decode_tensors(encode_tensors({"a": np.arange(3)}), source="here")
