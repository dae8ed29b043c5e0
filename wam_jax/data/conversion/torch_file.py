"""Reading what `torch.save` wrote, without torch and without running anything: `read_torch(path)`.

A file of torch 1.6 or later is a zip archive without compression: `data.pkl`, which describes containers and views, and
`data/KEY`, the numbers of each storage. The description is read by `wam_jax.data.conversion.torch_pickle`. Every size
is compared with what the archive holds before anything of that size is allocated, so reading costs at most the file's
directory, its description and the tensors that are asked for.
"""

import math
import struct
import zipfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from wam_jax.data.conversion.torch_pickle import MAX_BYTES, TensorRecord, parse
from wam_jax.errors import InputError

MAX_ENTRIES = 10_000
"""Of an archive: one per tensor."""

_END, _END64, _LOCATOR64 = b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07"
_COMPLETE = "a complete file of torch.save; copy it again"


@dataclass(frozen=True)
class TorchFile:
    """One file; tensors are read when they are asked for.

    Attributes:
        path: where it lies, on a local or mounted disk.
    """

    path: Path

    @cached_property
    def content(self) -> Any:
        """Plain containers of plain values and `TensorRecord`s; raises InputError."""
        with self._archive() as archive:
            prefix = self._prefix(archive)
            if f"{prefix}byteorder" in archive.namelist() and self._read(archive, f"{prefix}byteorder") != b"little":
                raise InputError(str(self.path), "big-endian numbers", "save the file on a little-endian machine")
            return parse(self._read(archive, f"{prefix}data.pkl", limit=MAX_BYTES), source=str(self.path))

    def tensor(self, record: TensorRecord, *, what: str) -> np.ndarray:
        """The numbers of a tensor, read-only; raises InputError where its sizes are not those of the file."""
        storage, where = record.storage, f"{self.path}: {what}"
        dtype = np.dtype(ml_dtypes.bfloat16 if storage.dtype == "bfloat16" else storage.dtype)
        entries = math.prod(record.shape)
        last = record.offset + sum(
            (size - 1) * stride for size, stride in zip(record.shape, record.strides, strict=True)
        )
        if not 0 < entries <= storage.entries or last >= storage.entries:
            raise InputError(
                where, record.shape, f"is empty or more than its storage of {storage.entries} entries; refused"
            )
        with self._archive() as archive:
            data = self._read(
                archive, f"{self._prefix(archive)}data/{storage.key}", exactly=storage.entries * dtype.itemsize
            )
        flat = np.frombuffer(data, dtype)[record.offset :]
        strides = tuple(stride * dtype.itemsize for stride in record.strides)
        return np.lib.stride_tricks.as_strided(flat, record.shape, strides, writeable=False)

    def _archive(self) -> zipfile.ZipFile:
        try:
            _check_directory(self.path)
            return zipfile.ZipFile(self.path)
        except InputError:
            raise
        except (OSError, ValueError, struct.error, zipfile.BadZipFile, NotImplementedError) as error:
            raise InputError(str(self.path), str(error), _COMPLETE) from None

    def _prefix(self, archive: zipfile.ZipFile) -> str:
        found = [name for name in archive.namelist() if name == "data.pkl" or name.endswith("/data.pkl")]
        if len(found) != 1:
            raise InputError(str(self.path), f"{len(found)} x data.pkl", "a file of torch.save, one object in it")
        return found[0].removesuffix("data.pkl")

    def _read(self, archive: zipfile.ZipFile, name: str, *, exactly: int | None = None, limit: int = 1 << 12) -> bytes:
        where = f"{self.path}: {name}"
        try:
            entry = archive.getinfo(name)
            if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
                raise InputError(where, "compressed", "torch.save stores without compression; refused")
            if entry.file_size > self.path.stat().st_size or (exactly is None and entry.file_size > limit):
                raise InputError(where, f"{entry.file_size} bytes declared", "more than there can be; refused")
            if exactly not in (None, entry.file_size):
                raise InputError(where, f"{entry.file_size} bytes", f"{exactly} are declared; copy the file again")
            return archive.read(entry)
        except KeyError:
            raise InputError(where, None, f"is missing; {_COMPLETE}") from None
        except (OSError, EOFError, ValueError, RuntimeError, struct.error, zipfile.BadZipFile) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(where, str(error), _COMPLETE) from None


def read_torch(path: Path) -> TorchFile:
    """Opens a file and reads its description.

    Raises:
        InputError: it is no file of `torch.save`, is damaged, or holds more than tensors and plain containers.
    """
    file = TorchFile(path)
    file.content  # noqa: B018 - what is wrong is found here.
    return file


def _check_directory(path: Path) -> None:
    """Raises InputError before a directory of entries is loaded that no file of ours has."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - (1 << 16) - 22))
        tail = file.read()
        at = tail.rfind(_END)
        if at < 0:
            raise zipfile.BadZipFile("the end of the archive is missing")
        entries, length = struct.unpack_from("<10xHI", tail, at)
        if at >= 20 and tail[at - 20 : at - 16] == _LOCATOR64:
            file.seek(struct.unpack_from("<8xQ", tail, at - 20)[0])
            record = file.read(56)
            if record[:4] != _END64:
                raise zipfile.BadZipFile("the end of the archive is damaged")
            entries, length = struct.unpack_from("<32xQQ", record)
    if entries > MAX_ENTRIES or length > MAX_ENTRIES << 8:
        raise InputError(str(path), f"{entries} entries in {length} bytes", f"at most {MAX_ENTRIES} tensors; refused")
