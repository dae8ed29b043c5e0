"""Arrays of `.npz` and `.safetensors` files of strangers: nothing is unpickled, sizes are checked before reading."""

import tokenize
import zipfile
import zlib
from pathlib import Path

import numpy as np
import safetensors

from wam_jax.errors import InputError

MAX_BYTES = 1 << 33
"""Of one array."""
_COMPLETE = "a complete file; copy it again"
_DAMAGE = (
    *(OSError, EOFError, ValueError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error),
    *(SyntaxError, tokenize.TokenError),  # NumPy reads an array's header as Python literals.
)


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an `.npz`; raises InputError where one is damaged, holds objects, or is not as large as it says."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {
                entry.filename.removesuffix(".npy"): _read_npy(archive, entry, f"{path}: {entry.filename}")
                for entry in archive.infolist()
                if entry.filename.endswith(".npy")
            }
    except InputError:
        raise
    except _DAMAGE as error:
        raise InputError(str(path), str(error), _COMPLETE) from None


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """All arrays of a `.safetensors`; raises InputError."""
    try:
        with safetensors.safe_open(str(path), "np") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no mapping.
    except (OSError, ValueError, TypeError, safetensors.SafetensorError) as error:
        raise InputError(str(path), str(error), _COMPLETE) from None


def _read_npy(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, where: str) -> np.ndarray:
    with archive.open(entry) as file:
        version = np.lib.format.read_magic(file)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
        if read is None:
            raise InputError(where, version, "an array that NumPy saved in format 1.0 or 2.0")
        shape, fortran, dtype = read(file)
        if dtype.hasobject or dtype.names or any(size < 0 for size in shape):
            raise InputError(where, str(dtype), "plain numbers; objects are not read")
        wanted, there = int(np.prod(shape, dtype=object)) * dtype.itemsize, entry.file_size - file.tell()
        if wanted != there or wanted > MAX_BYTES:
            raise InputError(where, f"{shape} of {dtype}", f"{there} bytes are there, at most {MAX_BYTES} are read")
        data = file.read()
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")
