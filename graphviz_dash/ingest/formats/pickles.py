"""Reader of pickles of plain data, without unpickling.

``pickle`` calls any function that a file names. This reader interprets the opcodes itself and
supports only those that create numbers, texts and containers. All others, including those that look
up or call something, are errors, so a file cannot run code. Source of the opcodes: CPython's
``pickletools``.
"""

from __future__ import annotations

import io
import pickletools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.formats.text import read_bytes
from graphviz_dash.ingest.limits import DEFAULT_LIMITS, Limits

_EXPECTED: Final = "a pickle of plain data: numbers, texts, lists, tuples, sets and dictionaries"
_LONGEST_INTEGER: Final = 1 << 512
_MARK: Final = object()
_KEYS: Final = frozenset({int, float, bool, str, bytes, type(None)})
"""Allowed types of keys and set elements. Tuples are excluded: a tuple's hash covers its elements,
so a hundred bytes can cause unbounded work."""

_OPERATION_BYTES: Final = 100
"""Approximate memory of one operation's value, including its place in a container."""

_VALUES: Final = frozenset(
    {
        "INT",
        "BININT",
        "BININT1",
        "BININT2",
        "LONG",
        "LONG1",
        "LONG4",
        "FLOAT",
        "BINFLOAT",
        "UNICODE",
        "BINUNICODE",
        "SHORT_BINUNICODE",
        "BINUNICODE8",
        "STRING",
        "BINSTRING",
        "SHORT_BINSTRING",
        "BINBYTES",
        "SHORT_BINBYTES",
        "BINBYTES8",
        "BYTEARRAY8",
    }
)
_CONSTANTS: Final = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: Final[dict[str, Callable[[], Any]]] = {
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_SET": set,
    "EMPTY_TUPLE": tuple,
}
_TUPLES: Final = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_ADDED: Final = frozenset({"SETITEM", "SETITEMS", "APPEND", "APPENDS", "ADDITEMS"})
_IGNORED: Final = frozenset({"PROTO", "FRAME"})
_STORE: Final = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})
_FETCH: Final = frozenset({"GET", "BINGET", "LONG_BINGET"})


def read_pickle(path: Path, limits: Limits = DEFAULT_LIMITS) -> Any:
    """Read the value in the pickle at ``path``, of builtin types only.

    Raises:
        InputError: Not a pickle, truncated, an operation beyond plain data, or more than ``limits``
            allow; ``limits.events`` limits the opcodes.
    """
    machine = _Machine(path, limits)
    max_operations = limits.memory_bytes // _OPERATION_BYTES
    content = io.BytesIO(read_bytes(path, limits))
    try:
        for number, (opcode, argument, position) in enumerate(pickletools.genops(content)):
            if number >= limits.events:
                raise limits.refuse(path, "events", "a pickle with more operations")
            if number >= max_operations:
                raise limits.refuse(path, "memory_bytes", "a pickle with more operations")
            if opcode.name == "STOP":
                return machine.result()
            machine.step(opcode.name, argument, position or 0)
    except (ValueError, IndexError, KeyError, TypeError, OverflowError) as error:
        # Raised for pickles that no pickler wrote. InputError is none of these.
        raise InputError(path, f"a damaged pickle ({error})", _EXPECTED) from error
    raise InputError(path, "a truncated pickle", _EXPECTED)


class _Machine:
    """Stack and memo of a pickle, for opcodes that create plain data."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self._path = path
        self._limits = limits
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._depths: dict[int, tuple[int, Any]] = {}  # of nested tuples by id, which stay alive

    def result(self) -> Any:
        """Return the final value."""
        if len(self._stack) != 1 or self._stack[0] is _MARK:
            raise InputError(self._path, "a pickle without a single value", _EXPECTED)
        return self._stack[0]

    def step(self, name: str, argument: Any, at: int) -> None:
        """Execute one opcode.

        KeyError, IndexError, TypeError or ValueError if it is invalid at this point.
        """
        stack = self._stack
        if name in _VALUES:
            stack.append(self._checked(argument))
        elif name in _STORE:
            self._memo[argument] = self._top()
        elif name in _FETCH:
            stack.append(self._memo[argument])
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = self._top()
        elif name == "MARK":
            stack.append(_MARK)
        elif name in _EMPTY:
            stack.append(_EMPTY[name]())
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _TUPLES:
            count = _TUPLES[name]
            stack.append(self._tuple([self._pop() for _ in range(count)][::-1]))
        elif name not in _IGNORED:
            self._container(name, at)

    def _container(self, name: str, at: int) -> None:
        if name in _ADDED:
            self._add(name)
            return
        stack = self._stack
        match name:
            case "DICT":
                stack.append(_pairs(self._marked()))
            case "LIST":
                stack.append(self._marked())
            case "TUPLE":
                stack.append(self._tuple(self._marked()))
            case "FROZENSET":
                stack.append(frozenset(_hashable(self._marked())))
            case "POP":
                stack.pop()
            case "POP_MARK":
                self._marked()
            case "DUP":
                stack.append(self._top())
            case _:
                raise InputError(
                    self._path,
                    f"the operation {name} at byte {at:,}, which could run code",
                    _EXPECTED,
                    "Pickles are only read as data and never executed.",
                )

    def _add(self, name: str) -> None:
        if name == "SETITEM":
            value, key = self._pop(), self._pop()
            _hashable((key,))
            self._of(dict)[key] = value
        elif name == "APPEND":
            value = self._pop()
            self._of(list).append(value)
        else:
            items = self._marked()
            if name == "SETITEMS":
                self._of(dict).update(_pairs(items))
            elif name == "APPENDS":
                self._of(list).extend(items)
            else:
                self._of(set).update(_hashable(items))

    def _tuple(self, items: list[Any]) -> tuple[Any, ...]:
        """Create a tuple from ``items``, unless tuples are nested too deeply.

        C code that compares or frees deeply nested tuples would overflow the stack.
        """
        value = tuple(items)
        depths = [self._depths.get(id(item), (1, None))[0] for item in items if type(item) is tuple]
        if depths:
            depth = 1 + max(depths)
            if depth > self._limits.nesting:
                raise self._limits.refuse(self._path, "nesting", "tuples nested too deeply")
            self._depths[id(value)] = (depth, value)
        return value

    def _checked(self, value: Any) -> Any:
        if isinstance(value, str | bytes | bytearray):
            if len(value) > self._limits.string_length:
                found = f"a text of {len(value):,} characters"
                raise self._limits.refuse(self._path, "string_length", found)
        elif isinstance(value, int) and abs(value) >= _LONGEST_INTEGER:
            raise ValueError("a number out of range")
        return value

    def _top(self) -> Any:
        value = self._stack[-1]
        if value is _MARK:
            raise ValueError("a mark instead of a value")
        return value

    def _pop(self) -> Any:
        value = self._top()
        self._stack.pop()
        return value

    def _of(self, kind: type[Any]) -> Any:
        value = self._top()
        if type(value) is not kind:
            raise ValueError(f"a {type(value).__name__} instead of a {kind.__name__}")
        return value

    def _marked(self) -> list[Any]:
        """Pop and return the values since the last mark, and the mark."""
        stack = self._stack
        mark = len(stack) - 1
        while stack[mark] is not _MARK:
            mark -= 1
            if mark < 0:
                raise ValueError("no mark")
        items = stack[mark + 1 :]
        del stack[mark:]
        return items


def _pairs(items: list[Any]) -> dict[Any, Any]:
    if len(items) % 2:
        raise ValueError("a key without a value")
    return dict(zip(_hashable(items[::2]), items[1::2], strict=True))


def _hashable(keys: Sequence[Any]) -> Sequence[Any]:
    """Return ``keys``, or raise ValueError unless all are scalars."""
    for key in keys:
        if type(key) not in _KEYS:
            raise ValueError(f"a {type(key).__name__} as a key")
    return keys
