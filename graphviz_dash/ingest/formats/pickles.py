"""Reader of pickles of plain data, without unpickling.

``pickle`` calls any function that a file names. This reader supports only opcodes that create
numbers, texts and containers; all others are errors, so a file cannot run code. Source: CPython's
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
_MAX_INTEGER: Final = 1 << 512
_MARK: Final = object()
_KEY_TYPES: Final = frozenset({int, float, bool, str, bytes, type(None)})
"""Allowed types of keys and set elements. Hashing a tuple covers its elements, so a hundred bytes
could cause unbounded work."""

_OPERATION_BYTES: Final = 100
"""Approximate memory of one operation's value."""

_VALUE_OPCODES: Final = frozenset(
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
_EMPTY_CONTAINERS: Final[dict[str, Callable[[], Any]]] = {
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_SET": set,
    "EMPTY_TUPLE": tuple,
}
_TUPLE_SIZES: Final = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_ADD_OPCODES: Final = frozenset({"SETITEM", "SETITEMS", "APPEND", "APPENDS", "ADDITEMS"})
_IGNORED_OPCODES: Final = frozenset({"PROTO", "FRAME"})
_STORE_OPCODES: Final = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})
_FETCH_OPCODES: Final = frozenset({"GET", "BINGET", "LONG_BINGET"})


def read_pickle(path: Path, limits: Limits = DEFAULT_LIMITS) -> Any:
    """Read the value in the pickle at ``path``, of builtin types only.

    Raises:
        InputError: Not a pickle, truncated, an operation beyond plain data, or more than ``limits``
            allow; ``limits.events`` limits the opcodes.
    """
    machine = _PickleMachine(path, limits)
    max_operations = limits.memory_bytes // _OPERATION_BYTES
    content = io.BytesIO(read_bytes(path, limits))
    try:
        for number, (opcode, argument, position) in enumerate(pickletools.genops(content)):
            if number >= limits.events:
                raise limits.build_error(path, "events", "a pickle with more operations")
            if number >= max_operations:
                raise limits.build_error(path, "memory_bytes", "a pickle with more operations")
            if opcode.name == "STOP":
                return machine.get_result()
            machine.execute_opcode(opcode.name, argument, position or 0)
    except (ValueError, IndexError, KeyError, TypeError, OverflowError) as error:
        # Raised for pickles that no pickler wrote. InputError is none of these.
        raise InputError(path, f"a damaged pickle ({error})", _EXPECTED) from error
    raise InputError(path, "a truncated pickle", _EXPECTED)


class _PickleMachine:
    def __init__(self, path: Path, limits: Limits) -> None:
        self._path = path
        self._limits = limits
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._depths: dict[int, tuple[int, Any]] = {}  # of nested tuples by id, which stay alive

    def get_result(self) -> Any:
        """Return the final value."""
        if len(self._stack) != 1 or self._stack[0] is _MARK:
            raise InputError(self._path, "a pickle without a single value", _EXPECTED)
        return self._stack[0]

    def execute_opcode(self, name: str, argument: Any, position: int) -> None:
        """Execute one opcode.

        KeyError, IndexError, TypeError or ValueError if it is invalid at this point.
        """
        stack = self._stack
        if name in _VALUE_OPCODES:
            stack.append(self._check_value(argument))
        elif name in _STORE_OPCODES:
            self._memo[argument] = self._get_top()
        elif name in _FETCH_OPCODES:
            stack.append(self._memo[argument])
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = self._get_top()
        elif name == "MARK":
            stack.append(_MARK)
        elif name in _EMPTY_CONTAINERS:
            stack.append(_EMPTY_CONTAINERS[name]())
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _TUPLE_SIZES:
            count = _TUPLE_SIZES[name]
            stack.append(self._build_tuple([self._pop_value() for _ in range(count)][::-1]))
        elif name not in _IGNORED_OPCODES:
            self._execute_container_opcode(name, position)

    def _execute_container_opcode(self, name: str, position: int) -> None:
        if name in _ADD_OPCODES:
            self._add_to_container(name)
            return
        stack = self._stack
        match name:
            case "DICT":
                stack.append(_build_dict(self._pop_to_mark()))
            case "LIST":
                stack.append(self._pop_to_mark())
            case "TUPLE":
                stack.append(self._build_tuple(self._pop_to_mark()))
            case "FROZENSET":
                stack.append(frozenset(_check_keys(self._pop_to_mark())))
            case "POP":
                stack.pop()
            case "POP_MARK":
                self._pop_to_mark()
            case "DUP":
                stack.append(self._get_top())
            case _:
                raise InputError(
                    self._path,
                    f"the operation {name} at byte {position:,}, which could run code",
                    _EXPECTED,
                    "Pickles are only read as data and never executed.",
                )

    def _add_to_container(self, name: str) -> None:
        if name == "SETITEM":
            value, key = self._pop_value(), self._pop_value()
            _check_keys((key,))
            self._get_container(dict)[key] = value
        elif name == "APPEND":
            value = self._pop_value()
            self._get_container(list).append(value)
        else:
            items = self._pop_to_mark()
            if name == "SETITEMS":
                self._get_container(dict).update(_build_dict(items))
            elif name == "APPENDS":
                self._get_container(list).extend(items)
            else:
                self._get_container(set).update(_check_keys(items))

    def _build_tuple(self, items: list[Any]) -> tuple[Any, ...]:
        """Create a tuple, unless nested too deeply.

        C code that compares or frees deep tuples would overflow the stack.
        """
        value = tuple(items)
        depths = [self._depths.get(id(item), (1, None))[0] for item in items if type(item) is tuple]
        if depths:
            depth = 1 + max(depths)
            if depth > self._limits.nesting:
                raise self._limits.build_error(self._path, "nesting", "tuples nested too deeply")
            self._depths[id(value)] = (depth, value)
        return value

    def _check_value(self, value: Any) -> Any:
        if isinstance(value, str | bytes | bytearray):
            if len(value) > self._limits.string_length:
                description = f"a text of {len(value):,} characters"
                raise self._limits.build_error(self._path, "string_length", description)
        elif isinstance(value, int) and abs(value) >= _MAX_INTEGER:
            raise ValueError("a number out of range")
        return value

    def _get_top(self) -> Any:
        value = self._stack[-1]
        if value is _MARK:
            raise ValueError("a mark instead of a value")
        return value

    def _pop_value(self) -> Any:
        value = self._get_top()
        self._stack.pop()
        return value

    def _get_container(self, kind: type[Any]) -> Any:
        value = self._get_top()
        if type(value) is not kind:
            raise ValueError(f"a {type(value).__name__} instead of a {kind.__name__}")
        return value

    def _pop_to_mark(self) -> list[Any]:
        stack = self._stack
        mark = len(stack) - 1
        while stack[mark] is not _MARK:
            mark -= 1
            if mark < 0:
                raise ValueError("no mark")
        items = stack[mark + 1 :]
        del stack[mark:]
        return items


def _build_dict(items: list[Any]) -> dict[Any, Any]:
    if len(items) % 2:
        raise ValueError("a key without a value")
    return dict(zip(_check_keys(items[::2]), items[1::2], strict=True))


def _check_keys(keys: Sequence[Any]) -> Sequence[Any]:
    """Return ``keys``, or raise ValueError unless all are scalars."""
    for key in keys:
        if type(key) not in _KEY_TYPES:
            raise ValueError(f"a {type(key).__name__} as a key")
    return keys
