"""Locate the user's code: user frames, their source, and the conditions at a line."""

from __future__ import annotations

import ast
import linecache
import re
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Final

from collectors.collection.paths import GENERATED, shorten_path
from graphviz_dash.model.doctor import CodeLocation

_CONTEXT_LINES: Final = 3
"""Lines of source stored before and after the location."""

_TORCH: Final = re.compile(r"/(?:site|dist)-packages/(?:torch|triton|functorch)/")
_OWN_FOLDER: Final = str(Path(__file__).parents[1])
_WORKLOADS: Final = str(Path(__file__).parents[1] / "workloads")
_LIBRARY: Final = tuple(str(Path(sysconfig.get_path(name))) for name in ("stdlib", "platstdlib"))


@dataclass(frozen=True)
class SourceLocation:
    """A line in a local file and the function that contains it."""

    file: str
    line: int
    function: str
    caller: SourceLocation | None = None
    """Line of the program that led to this library line, or None in the program."""

    def to_code_place(self) -> CodeLocation:
        """Convert to the bundle format, with surrounding source lines."""
        lines = _read_source(self.file)
        first = max(1, self.line - _CONTEXT_LINES)
        return CodeLocation(
            file=shorten_path(self.file),
            line=self.line,
            function=self.function,
            first_line=first,
            lines=lines[first - 1 : self.line + _CONTEXT_LINES],
        )


def is_user_code(file: str) -> bool:
    """Check if a file is user code, including the built-in workloads."""
    if file.startswith(_WORKLOADS):
        return True
    packages = ("/site-packages/", "/dist-packages/")
    return not (
        file.startswith((_OWN_FOLDER, "<", *_LIBRARY))
        or any(part in file for part in packages)
        or GENERATED.search(file)
    )


def is_library_code(file: str) -> bool:
    """Check for code of a library other than torch, whose lines can name a cause."""
    is_package = any(part in file for part in ("/site-packages/", "/dist-packages/"))
    return is_package and not (_TORCH.search(file) or GENERATED.search(file))


def find_user_location(frame: FrameType | None) -> SourceLocation | None:
    """Return the innermost program or library frame at or above ``frame``, or None."""
    frames = []
    while frame is not None:
        frames.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return _choose_location(frames)


def _choose_location(frames: Iterable[tuple[CodeType, int]]) -> SourceLocation | None:
    library = None
    for code, line in frames:
        if is_user_code(code.co_filename):
            location = SourceLocation(code.co_filename, line, code.co_qualname)
            return location if library is None else replace(library, caller=location)
        if library is None and is_library_code(code.co_filename):
            library = SourceLocation(code.co_filename, line, code.co_qualname)
    return None


def find_recorded_location(frames: Iterable[tuple[str, int, str]]) -> SourceLocation | None:
    """Return the first frame of the program among file, line and function, or None."""
    return next((SourceLocation(*frame) for frame in frames if is_user_code(frame[0])), None)


def find_thread_location(ident: int) -> SourceLocation | None:
    """Return the current user line of a thread of this process, or None."""
    return find_user_location(sys._current_frames().get(ident))


def find_error_location(trace: TracebackType | None) -> SourceLocation | None:
    """Return the innermost program or library frame of an exception, or None."""
    frames = []
    while trace is not None:
        frames.append((trace.tb_frame.f_code, trace.tb_lineno))
        trace = trace.tb_next
    return _choose_location(reversed(frames))


def is_condition(spot: SourceLocation) -> bool:
    """Check if the line is in a condition of ``if``, ``while``, ``assert`` or an expression."""
    return any(first <= spot.line <= last for first, last in _find_conditions(spot.file))


def _read_source(file: str) -> tuple[str, ...]:
    return tuple(line.rstrip("\n") for line in linecache.getlines(file))


@lru_cache(maxsize=256)
def _find_conditions(file: str) -> tuple[tuple[int, int], ...]:
    try:
        tree = ast.parse("\n".join(_read_source(file)))
    except (SyntaxError, ValueError):
        return ()
    return tuple(
        (node.test.lineno, node.test.end_lineno or node.test.lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.If | ast.While | ast.IfExp | ast.Assert)
    )
