"""Files of `torch.save`: what is read is what was saved, and what is hostile is refused in one line, unrun."""

import os
import pickle
import struct
import tracemalloc
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tests.data.conversion.torch_files import archive, describe, save_torch, torch_bytes
from wam_jax.data.conversion.torch_file import MAX_ENTRIES, read_torch
from wam_jax.data.conversion.torch_pickle import MAX_BYTES, MAX_OPERATIONS, parse
from wam_jax.errors import InputError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file.pth"


@pytest.mark.parametrize("dtype", ["float32", "float16", ml_dtypes.bfloat16, "int64", "uint8", "bool", "float64"])
def test_tensors_come_back(path, dtype):
    array = (np.arange(24).reshape(2, 3, 4) % 2).astype(dtype)
    save_torch(path, {"x": array})
    file = read_torch(path)
    found = file.tensor(file.content["x"], what="x")
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


def test_plain_values_come_back(path):
    content = {"a": [1, -2, 300, 70_000, 2**40], "b": (1.5, "ä", None, True, False), 3: {"c": {}}, "d": [], "e": ()}
    save_torch(path, content)
    assert read_torch(path).content == content


def test_a_view_is_cut_out_of_its_storage(path):
    """Six entries as three rows of two, column by column; one entry further there are too few."""
    program, _ = describe({"x": np.zeros((2, 3), np.float32)})
    turned = program.replace(b"K\x00K\x02K\x03\x86", b"K\x00K\x03K\x02\x86").replace(
        b"K\x03K\x01\x86", b"K\x01K\x03\x86"
    )
    numbers = np.arange(6, dtype=np.float32)
    path.write_bytes(archive({"data.pkl": turned, "data/0": numbers.tobytes()}))
    np.testing.assert_array_equal(_read(path), numbers.reshape(2, 3).T)
    moved = turned.replace(b"K\x00K\x03K\x02", b"K\x01K\x03K\x02")
    path.write_bytes(archive({"data.pkl": moved, "data/0": numbers.tobytes()}))
    with pytest.raises(InputError, match="more than its storage of 6 entries"):
        _read(path)


class _Runs:
    """Pickles as a call that would leave a trace."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self):
        return os.mkdir, (str(self.trace),)


def _read(path: Path) -> np.ndarray:
    file = read_torch(path)
    return file.tensor(file.content["x"], what="x")


def check_refused(path: Path) -> InputError:
    """The refusal, of one line and little memory."""
    tracemalloc.start()
    try:
        with pytest.raises(InputError) as refusal:
            _read(path)
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()
    assert "\n" not in str(refusal.value)
    return refusal.value


def test_code_is_not_run(path, tmp_path):
    for protocol in (0, 2, 4):
        path.write_bytes(archive({"data.pkl": pickle.dumps(_Runs(tmp_path / "trace"), protocol)}))
        assert "refused" in str(check_refused(path)) or "damaged" in str(check_refused(path))
    assert not (tmp_path / "trace").exists()


NAMES = [b"cos\nsystem\n.", b"c__builtin__\neval\n.", b"ctorch\nload\n.", b"cnumpy.core.multiarray\n_reconstruct\n."]
PROGRAMS = {
    "called string": b"\x80\x02X\x02\x00\x00\x00ls)R.",
    "object state": b"\x80\x02}}b.",
    "extension": b"\x80\x02\x82\x01.",
    "persistent text": b"P0\n.",
    "nothing": b"",
    "no stop": b"\x80\x02}",
    "empty stack": b"\x80\x02a.",
    "missing mark": b"\x80\x02)t.",
    "unknown memo": b"\x80\x02h\x07.",
    "tuple as key": b"\x80\x02}))s.",
    "a bare name": b"ctorch\nFloatStorage\n.",
    "arguments of a dict": b"\x80\x02ccollections\nOrderedDict\n]\x85R.",
    "storage of nothing": b"\x80\x02X\x01\x00\x00\x00x\x85Q.",
    "a long number": b"\x80\x02\x8b\xff\xff\xff\x7f.",
    "a long text": b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7f.",
    "an integer of text": b"I99999999999999999999\n.",
}


@pytest.mark.parametrize("program", [*NAMES, *PROGRAMS.values()], ids=[*map(str, range(len(NAMES))), *PROGRAMS])
def test_other_programs_are_refused(path, program):
    path.write_bytes(archive({"data.pkl": program}))
    check_refused(path)


def test_a_program_that_grows_is_refused(path):
    path.write_bytes(archive({"data.pkl": b"\x80\x02" + b"}" * MAX_BYTES}))
    check_refused(path)
    path.write_bytes(archive({"data.pkl": b"\x80\x02" + b"}" * (MAX_OPERATIONS + 2) + b"."}))
    assert "operations" in str(check_refused(path))


def test_shared_containers_cost_nothing():
    """Each list holds the one before it twice: two to the thousandth leaves, a thousand lists."""
    program = (
        b"\x80\x04]\x94"
        + b"]\x94(j"
        + b"".join(struct.pack("<I", i) + b"j" + struct.pack("<I", i) + b"e]\x94(j" for i in range(1000))
    )
    program = program[: -len(b"]\x94(j")] + b"."
    with pytest.raises(InputError, match="damaged"):
        parse(program, source="shared")


def _with_sizes(shape: bytes, entries: bytes) -> bytes:
    program, _ = describe({"x": np.zeros((2, 3), np.float32)})
    return program.replace(b"K\x02K\x03\x86", shape).replace(b"K\x06t", entries + b"t")


HUGE = b"\x8a\x08" + struct.pack("<q", 2**40)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (_with_sizes(HUGE + b"K\x03\x86", b"K\x06"), "more than its storage"),
        (_with_sizes(b"K\x02K\x03\x86", HUGE), "are declared"),
        (_with_sizes(HUGE + HUGE + b"\x86", b"K\x06"), "more than its storage"),
        (_with_sizes(b"J\xff\xff\xff\xffK\x03\x86", b"K\x06"), "odd sizes"),
        (_with_sizes(b"K\x00K\x03\x86", b"K\x06"), "empty"),
        (_with_sizes(b"K\x02K\x03K\x04\x87", b"K\x06"), "odd sizes"),
    ],
)
def test_sizes_are_compared_with_what_is_there(path, program, said):
    path.write_bytes(archive({"data.pkl": program, "data/0": bytes(24)}))
    assert said in str(check_refused(path))


def test_another_dtype_is_refused(path):
    save_torch(path, {"x": np.zeros(3, np.complex64)})
    assert "torch.ComplexFloatStorage" in str(check_refused(path))


def test_a_compressed_bomb_is_refused(path):
    program, _ = describe({"x": np.zeros(1 << 26, np.float32)})
    entries = {"data.pkl": program, "data/0": bytes(1 << 28)}
    path.write_bytes(archive(entries, compression=zipfile.ZIP_DEFLATED))
    assert path.stat().st_size < 1 << 20
    assert "without compression" in str(check_refused(path))


def test_a_truncated_archive_is_refused(path):
    whole = torch_bytes({"x": np.arange(1000, dtype=np.float32)})
    for length in (0, 10, len(whole) // 2, len(whole) - 30, len(whole) - 1):
        path.write_bytes(whole[:length])
        check_refused(path)


def test_a_directory_of_a_million_entries_is_not_loaded(path):
    whole = bytearray(torch_bytes({"x": np.zeros(3, np.float32)}))
    at = whole.rfind(b"PK\x06\x06")
    struct.pack_into("<QQ", whole, at + 24, 1 << 40, 1 << 40)
    path.write_bytes(bytes(whole))
    assert f"at most {MAX_ENTRIES} tensors" in str(check_refused(path))


def test_what_is_no_archive_is_refused(path, tmp_path):
    path.write_bytes(pickle.dumps({"x": 1}))
    assert "end of the archive" in str(check_refused(path))
    with pytest.raises(InputError):
        read_torch(tmp_path)


def test_numbers_of_other_machines_are_refused(path):
    path.write_bytes(archive({"data.pkl": describe({"x": 1})[0], "byteorder": b"big"}))
    assert "big-endian" in str(check_refused(path))
