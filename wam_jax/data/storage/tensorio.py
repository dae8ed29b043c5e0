"""Safetensors read by name and by part, from local disks, remote ones and memory.

A local file is memory-mapped, so a part costs what it holds; a remote file (`gs://...`) is read whole once. Files open
on first use, may be shared by threads, and pickle as their path. Floating-point tensors only.
"""

import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy
from etils import epath

from wam_jax.data.files import is_remote
from wam_jax.errors import InputError

Part = tuple[slice, ...]

# `safetensors.numpy.load` knows no bfloat16.
_DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16}


class TensorFile:
    """One safetensors file.

    Every method raises InputError where the file is missing, truncated or no safetensors.
    """

    def __init__(self, path: epath.PathLike) -> None:
        self._path = epath.Path(path)
        self._lock = threading.Lock()

    def names(self) -> list[str]:
        """Names of the tensors, sorted."""
        with self._guarded():
            return sorted(self._tensors.keys())

    def read(self, name: str, part: Part = ()) -> np.ndarray:
        """One tensor, or the part of it that slices of its leading axes select."""
        with self._guarded():
            if isinstance(self._tensors, Mapping):
                return self._tensors[name][part]
            tensor = self._tensors.get_slice(name)
            # The library slices no empty tensor.
            return tensor[part] if part and 0 not in tensor.get_shape() else self._tensors.get_tensor(name)[part]

    def __getstate__(self) -> dict[str, Any]:
        return {"_path": self._path}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._path, self._lock = state["_path"], threading.Lock()

    @cached_property
    def _tensors(self) -> Any:
        if is_remote(self._path):
            return decode_tensors(self._path.read_bytes(), source=str(self._path))
        return safetensors.safe_open(str(self._path), "np")

    @contextmanager
    def _guarded(self) -> Generator[None]:
        try:
            with self._lock:
                yield
        except (FileNotFoundError, safetensors.SafetensorError) as error:
            raise InputError(str(self._path), str(error), "a complete safetensors file; copy it again") from None


def decode_tensors(data: bytes, *, source: str) -> dict[str, np.ndarray]:
    """All tensors of a file's bytes, as read-only views; raises InputError naming `source` where they are damaged."""
    try:
        entries = safetensors.deserialize(data)
    except safetensors.SafetensorError as error:
        raise InputError(source, str(error), "complete safetensors; copy it again") from None
    tensors = {}
    for name, entry in entries:
        if entry["dtype"] not in _DTYPES:
            raise InputError(f"{source}: {name}", entry["dtype"], f"one of {', '.join(_DTYPES)}")
        tensors[name] = np.frombuffer(entry["data"], _DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def encode_tensors(tensors: Mapping[str, np.ndarray], metadata: dict[str, str] | None = None) -> bytes:
    """Bytes of a file that holds `tensors`.

    The same tensors give the same bytes as long as `metadata` has at most one key (the format keeps no order of keys).
    """
    contiguous = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    return safetensors.numpy.save(contiguous, metadata)
