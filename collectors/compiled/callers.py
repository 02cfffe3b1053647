"""Find the callers of the function being compiled.

torch's ``dynamo_start`` record skips too many frames: the innermost user frame up to torch 2.8, the
two innermost from 2.9 to 2.13.
"""

from __future__ import annotations

import linecache
from collections.abc import Mapping
from types import FrameType
from typing import Any, Final

from graphviz_dash.bundle.compile_stacks import is_user_file

_DYNAMO: Final = "torch._dynamo.convert_frame"
"""Module whose callers are the program's frames."""

_START: Final = "dynamo_start"
_MAX_CALLERS: Final = 12


def add_callers(metadata: Mapping[str, Any], frame: FrameType | None) -> Mapping[str, Any]:
    """Replace the callers in a compilation-start record by the innermost 12 user frames."""
    start = metadata.get(_START)
    if not isinstance(start, dict) or not start.get("stack"):
        return metadata
    while frame is not None and frame.f_globals.get("__name__") != _DYNAMO:
        frame = frame.f_back
    while frame is not None and frame.f_globals.get("__name__") == _DYNAMO:
        frame = frame.f_back
    if frame is None:
        return metadata
    callers: list[dict[str, Any]] = []
    while frame is not None and len(callers) < _MAX_CALLERS:
        file, line = frame.f_code.co_filename, frame.f_lineno
        if line is not None and is_user_file(file):
            code = linecache.getline(file, line, frame.f_globals).strip()
            callers.append(
                {"line": line, "name": frame.f_code.co_name, "filename": file, "loc": code}
            )
        frame = frame.f_back
    return {**metadata, _START: {**start, "stack": [*reversed(callers), start["stack"][-1]]}}
