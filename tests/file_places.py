"""Places of the code that open, write, rename or synchronise files: in the source, and at work."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = ("graphviz_dash", "collectors")
_WRITES: Final = frozenset(
    {"write_text", "write_bytes", "touch", "symlink_to", "hardlink_to", "mkfifo", "fsync"}
    | {"fdatasync", "ftruncate", "pwrite", "posix_fallocate", "copyfile", "copyfileobj"}
    | {"copytree", "NamedTemporaryFile", "mkstemp"}
    | {"write_parquet", "write_ipc", "write_csv", "sink_parquet", "sink_ipc", "sink_csv"}
)
_READS: Final = frozenset({"read_text", "read_bytes", "scan_parquet", "read_parquet", "mmap"})
_READS_OF_LINES: Final = frozenset({"getline", "getlines"})
"""Functions of :mod:`linecache`."""
_OPENERS: Final = frozenset({"open", "fdopen", "ZipFile", "GzipFile", "TarFile", "ZstdFile"})
_MOVES: Final = frozenset({"rename", "replace", "link", "move"})
_NAMES: Final = _WRITES | _READS | _READS_OF_LINES | _OPENERS | _MOVES | {"connect"}
_MENTION: Final = re.compile(rf"\b(?:{'|'.join(sorted(_NAMES))})\b")
_WRITE_FLAGS: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES: Final = ("os.rename", "os.mkdir", "os.link", "os.symlink", "os.truncate")


def find_places(*, writes: bool) -> set[str]:
    """Find each function with a call that writes files, or that reads them: ``file:function``."""
    places = set()
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            name = file.relative_to(ROOT).as_posix()
            for function, call in _list_calls(file):
                if (_is_write if writes else _is_read)(call):
                    places.add(f"{name}:{function}")
    return places


@cache
def _list_calls(file: Path) -> tuple[tuple[str, ast.Call], ...]:
    """List the calls of ``_NAMES`` in a file with the functions that contain them."""
    text = file.read_text(encoding="utf-8")
    return tuple(_iter_calls(ast.parse(text), "")) if _MENTION.search(text) else ()


def _iter_calls(node: ast.AST, function: str) -> Iterator[tuple[str, ast.Call]]:
    for child in ast.iter_child_nodes(node):
        inner = function
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            inner = child.name
        if isinstance(child, ast.Call) and _get_name(child) in _NAMES:
            yield function, child
        yield from _iter_calls(child, inner)


def _is_write(call: ast.Call) -> bool:
    name, owner = _get_name(call), _get_owner(call)
    if name in _OPENERS and owner != "os":
        return any(set(mode) & set("wax+") for mode in _list_modes(call))
    if owner == "os" and name == "open":
        return "O_RDONLY" not in ast.unparse(call)
    if name in _MOVES:
        # A path has one target; strings and structures have two or named values.
        is_path = len(call.args) == 1 and not call.keywords
        return owner in ("os", "shutil") or (bool(owner) and is_path)
    return name in _WRITES or (owner, name) == ("sqlite3", "connect")


def _is_read(call: ast.Call) -> bool:
    name, owner = _get_name(call), _get_owner(call)
    if name in _OPENERS:
        return not _is_write(call)
    if owner == "linecache" and name in _READS_OF_LINES:
        return True
    return name in _READS or (owner, name) == ("sqlite3", "connect")


def _get_name(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return getattr(call.func, "id", "")


def _get_owner(call: ast.Call) -> str:
    return ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def _list_modes(call: ast.Call) -> list[str]:
    values = [*call.args, *(keyword.value for keyword in call.keywords)]
    texts = [value.value for value in values if isinstance(value, ast.Constant)]
    return [text for text in texts if isinstance(text, str) and len(text) < 4]


class _Observer:
    def __init__(self) -> None:
        self.places: set[str] | None = None
        self.writes = False
        self.is_installed = False

    def handle(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.places is None or not self._is_relevant(event, arguments):
            return
        frame = sys._getframe(1)
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith(str(ROOT)):
                name = file.removeprefix(f"{ROOT}{os.sep}")
                if name.startswith(PACKAGES):
                    self.places.add(f"{name}:{frame.f_code.co_name}")
                # Callers may hand the path to a function of another module.
            frame = frame.f_back  # type: ignore[assignment]

    def _is_relevant(self, event: str, arguments: tuple[object, ...]) -> bool:
        if event == "open":
            flags = arguments[2]
            return isinstance(flags, int) and bool(flags & _WRITE_FLAGS) == self.writes
        if event == "sqlite3.connect":
            return True
        return self.writes and event in _CHANGES


_OBSERVER: Final = _Observer()


@contextmanager
def observe_places(*, writes: bool) -> Iterator[set[str]]:
    """Collect the functions of our packages that call for a change of files, or for a read."""
    if not _OBSERVER.is_installed:
        sys.addaudithook(_OBSERVER.handle)
        _OBSERVER.is_installed = True
    _OBSERVER.places, _OBSERVER.writes = set(), writes
    try:
        yield _OBSERVER.places
    finally:
        _OBSERVER.places = None
