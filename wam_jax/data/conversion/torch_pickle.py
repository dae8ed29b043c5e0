"""The part of the pickle language that a `torch.save` of tensors and plain containers needs, and no more.

Nothing is imported and nothing is called: the program of a pickle is run on a stack of plain values, where the names
of torch's own constructors stand for themselves and give descriptions of tensors. Any other name, any other opcode and
any other shape of arguments is refused, so that a hostile file can at most be refused. What a program can build is
bounded before it is built: bytes of program, number of operations, plain keys only, long integers of 255 bytes.
"""

import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wam_jax.errors import InputError

MAX_BYTES = 1 << 21
"""Of program; lists of frame numbers take three bytes a number."""
MAX_OPERATIONS = 400_000

STORAGES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
}
"""Names of torch's typed storages, and the dtype of each."""

_MARK = object()
_LITERALS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_PUSHES = {"BINUNICODE", "SHORT_BINUNICODE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"}
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


@dataclass(frozen=True)
class Storage:
    """A typed run of numbers in the file: its key, dtype and number of entries."""

    key: str
    dtype: str
    entries: int


@dataclass(frozen=True)
class TensorRecord:
    """A tensor as a view of a storage: offset, sizes and strides in entries."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class _Name:
    module: str
    name: str


def parse(program: bytes, *, source: str) -> Any:
    """Runs a pickle program.

    Args:
        program: the content of `data.pkl`.
        source: the file's path, for messages.
    Returns:
        Plain containers of plain values and `TensorRecord`s. Containers may be shared, as in any pickle.
    Raises:
        InputError: the program is longer than allowed, damaged, or wants anything but tensors and plain containers.
    """
    if len(program) > MAX_BYTES:
        raise InputError(
            source, f"{len(program)} bytes of pickle", f"at most {MAX_BYTES}: tensors and plain containers"
        )
    machine = _Machine(source)
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(program)):
            if count > MAX_OPERATIONS:
                raise InputError(source, "a longer pickle", f"at most {MAX_OPERATIONS} operations")
            machine.step(opcode.name, argument)
        return machine.result()
    except InputError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, UnicodeError, OverflowError) as error:
        raise InputError(source, f"damaged pickle ({error})", "a complete file; copy it again") from None


class _Machine:
    """The stack and the memo of one program."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._stopped = False
        self._acts: dict[str, Callable[[Any], None]] = {
            "PROTO": self._ignore,
            "FRAME": self._ignore,
            "MARK": lambda _: self._stack.append(_MARK),
            "EMPTY_LIST": lambda _: self._stack.append([]),
            "EMPTY_DICT": lambda _: self._stack.append({}),
            "TUPLE": lambda _: self._stack.append(tuple(self._marked())),
            "APPEND": lambda _: self._extend([self._stack.pop()]),
            "APPENDS": lambda _: self._extend(self._marked()),
            "SETITEM": lambda _: self._update([self._stack.pop() for _ in range(2)][::-1]),
            "SETITEMS": lambda _: self._update(self._marked()),
            "MEMOIZE": lambda _: self._remember(len(self._memo)),
            "BINPUT": self._remember,
            "LONG_BINPUT": self._remember,
            "BINGET": self._recall,
            "LONG_BINGET": self._recall,
            "GLOBAL": lambda argument: self._name(*argument.split(" ", 1)),
            "STACK_GLOBAL": lambda _: self._name(*[self._stack.pop() for _ in range(2)][::-1]),
            "BINPERSID": lambda _: self._stack.append(self._storage(self._stack.pop())),
            "REDUCE": lambda _: self._reduce(),
            "STOP": lambda _: setattr(self, "_stopped", True),
        }

    def step(self, opcode: str, argument: Any) -> None:
        if opcode in _PUSHES:
            self._stack.append(argument)
        elif opcode in _LITERALS:
            self._stack.append(_LITERALS[opcode])
        elif opcode in _TUPLES:
            self._stack.append(self._last(_TUPLES[opcode]))
        elif opcode in self._acts:
            self._acts[opcode](argument)
        else:
            raise self._refusal(f"pickle operation {opcode}")

    def result(self) -> Any:
        if not self._stopped or len(self._stack) != 1 or isinstance(self._stack[0], _Name):
            raise ValueError("it ends early")
        return self._stack[0]

    def _ignore(self, argument: Any) -> None:
        """Version and framing say nothing about the value."""

    def _last(self, count: int) -> tuple[Any, ...]:
        if count > len(self._stack):
            raise ValueError("the stack is empty")
        values = tuple(self._stack[len(self._stack) - count :])
        del self._stack[len(self._stack) - count :]
        return values

    def _marked(self) -> list[Any]:
        at = len(self._stack) - 1
        while self._stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise ValueError("a mark is missing")
        values = self._stack[at + 1 :]
        del self._stack[at:]
        return values

    def _extend(self, values: list[Any]) -> None:
        if not isinstance(self._stack[-1], list):
            raise self._refusal("append to no list")
        self._stack[-1].extend(values)

    def _update(self, values: list[Any]) -> None:
        target = self._stack[-1]
        if not isinstance(target, dict) or len(values) % 2:
            raise self._refusal("items of no dict")
        for key, value in zip(values[::2], values[1::2], strict=True):
            if not isinstance(key, str | int):  # Hashing shared tuples can take for ever.
                raise self._refusal(f"a dict key of type {type(key).__name__}")
            target[key] = value

    def _remember(self, at: int) -> None:
        self._memo[at] = self._stack[-1]

    def _recall(self, at: int) -> None:
        self._stack.append(self._memo[at])

    def _name(self, module: str, name: str) -> None:
        known = (module == "torch" and name in STORAGES) or (module, name) in (
            ("torch._utils", "_rebuild_tensor_v2"),
            ("collections", "OrderedDict"),
        )
        if not known:
            raise self._refusal(f"{module}.{name}"[:80])
        self._stack.append(_Name(module, name))

    def _storage(self, described: Any) -> Storage:
        kind, dtype, key, device, entries = described
        if kind != "storage" or not isinstance(dtype, _Name) or dtype.name not in STORAGES:
            raise self._refusal("a persistent id that is no storage")
        if not (isinstance(key, str) and isinstance(device, str) and _is_size(entries)):
            raise self._refusal("a storage with odd parts")
        return Storage(key, STORAGES[dtype.name], entries)

    def _reduce(self) -> None:
        constructor, arguments = self._last(2)
        if not isinstance(constructor, _Name) or not isinstance(arguments, tuple):
            raise self._refusal("a call")
        if constructor.name == "OrderedDict":
            if arguments:
                raise self._refusal("OrderedDict of something")
            self._stack.append({})
        elif constructor.name == "_rebuild_tensor_v2":
            self._stack.append(self._tensor(*arguments[:4]))
        else:
            raise self._refusal(f"a call of {constructor.name}")

    def _tensor(self, storage: Any, offset: Any, shape: Any, strides: Any) -> TensorRecord:
        if not isinstance(storage, Storage) or not isinstance(shape, tuple) or not isinstance(strides, tuple):
            raise self._refusal("a tensor of odd parts")
        if not all(map(_is_size, (offset, *shape, *strides))) or len(shape) != len(strides) or len(shape) > 8:
            raise self._refusal("a tensor of odd sizes")
        return TensorRecord(storage, offset, shape, strides)

    def _refusal(self, what: str) -> InputError:
        return InputError(self._source, what, "refused: only tensors and plain containers are read, and nothing is run")


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 48
