"""Files as `torch.save` writes them, without torch: the archive, its description, its storages.

torch's own names are put in the place of torch while a description is pickled. Archives are written with the end record
that torch's writer uses (zip64 with its locator), each entry stored.
"""

import io
import pickle
import struct
import sys
import types
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

_STORAGES = {
    "float64": "DoubleStorage",
    "float32": "FloatStorage",
    "float16": "HalfStorage",
    "bfloat16": "BFloat16Storage",
    "int64": "LongStorage",
    "int32": "IntStorage",
    "uint8": "ByteStorage",
    "bool": "BoolStorage",
    "complex64": "ComplexFloatStorage",
}


class _Storage:
    def __init__(self, array: np.ndarray) -> None:
        self.array = array


def _rebuild_tensor_v2(*_: Any) -> None: ...


_rebuild_tensor_v2.__module__ = "torch._utils"


def _torch() -> dict[str, types.ModuleType]:
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    for name in _STORAGES.values():
        setattr(torch, name, type(name, (), {"__module__": "torch"}))
    utils._rebuild_tensor_v2 = _rebuild_tensor_v2  # ty: ignore[missing-attribute]
    return {"torch": torch, "torch._utils": utils}


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, torch: types.ModuleType) -> None:
        super().__init__(file, protocol=2)
        self.storages: list[bytes] = []
        self._torch = torch

    def persistent_id(self, obj: Any) -> Any:
        if not isinstance(obj, _Storage):
            return None
        self.storages.append(np.ascontiguousarray(obj.array).tobytes())
        kind = getattr(self._torch, _STORAGES[obj.array.dtype.name])
        return ("storage", kind, str(len(self.storages) - 1), "cpu", obj.array.size)

    def reducer_override(self, obj: Any) -> Any:
        if not isinstance(obj, np.ndarray):
            return NotImplemented
        strides = tuple(int(np.prod(obj.shape[axis + 1 :], dtype=int)) for axis in range(obj.ndim))
        return _rebuild_tensor_v2, (_Storage(obj), 0, obj.shape, strides, False, OrderedDict())


def describe(content: Any) -> tuple[bytes, list[bytes]]:
    """The pickle of `content`, in which NumPy arrays are tensors, and the bytes of their storages."""
    file = io.BytesIO()
    with mock.patch.dict(sys.modules, modules := _torch()):
        pickler = _Pickler(file, modules["torch"])
        pickler.dump(content)
    return file.getvalue(), pickler.storages


def archive(entries: dict[str, bytes], *, compression: int = zipfile.ZIP_STORED) -> bytes:
    """A zip archive with torch's end record."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as out:
        for name, data in entries.items():
            out.writestr(zipfile.ZipInfo(f"archive/{name}"), data, compression)
    data = file.getvalue()
    end = data.rfind(b"PK\x05\x06")
    count, length, start = struct.unpack_from("<10xHII", data, end)
    record = struct.pack("<4sQHHIIQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, length, start)
    return data[:end] + record + struct.pack("<4sIQI", b"PK\x06\x07", 0, end, 1) + data[end:]


def torch_bytes(content: Any) -> bytes:
    """A file of `torch.save`."""
    program, storages = describe(content)
    entries = {"data.pkl": program, "byteorder": b"little", "version": b"3\n"}
    return archive(entries | {f"data/{key}": data for key, data in enumerate(storages)})


def save_torch(path: Path, content: Any) -> None:
    """Writes a file of `torch.save`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(torch_bytes(content))
