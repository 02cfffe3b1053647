"""Names of unsupported JSON files of other tools, by their fields."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct


class OtherTool(Struct, frozen=True):
    """A kind of unsupported file."""

    description: str
    """Description of the file."""
    fields: tuple[str, ...]
    """Fields at the start of such files."""
    advice: str
    """Advice for a supported file."""


_RECORD: Final = "Record the program with torch.profiler or nsys instead."
_TOOLS: Final = (
    OtherTool(
        "a TensorRT layer profile, which has no times of starts",
        ("averageMs", "percentage"),
        _RECORD,
    ),
    OtherTool(
        "a call tree of Triton's Proton, which has sums instead of times",
        ("children", "frame", "metrics"),
        "Record with proton.start(..., data='trace'), or with torch.profiler.",
    ),
    OtherTool(
        "a speedscope profile, which has no GPU work", ("\\$schema", "profiles|shared"), _RECORD
    ),
    OtherTool(
        "a trace of Triton Inference Server, which has no kernels",
        ("model_name", "timestamps|activity"),
        _RECORD,
    ),
    OtherTool("a pyinstrument profile, which has no GPU work", ("root_frame",), _RECORD),
    OtherTool(
        "a CPU profile of Chrome or Node.js, which has no GPU work",
        ("nodes", "callFrame"),
        _RECORD,
    ),
    OtherTool(
        "an execution trace of PyTorch, which has no times",
        ("schema", "nodes", "ctrl_deps|inputs"),
        "Import the Kineto trace that was recorded with it.",
    ),
)


def detect_other_tool(head: bytes) -> OtherTool | None:
    """Detect an unsupported file by its first bytes. None if unknown."""
    text = head.decode("utf-8", "replace")
    if '"traceEvents"' in text or '"ph"' in text:
        return None
    return next(
        (
            tool
            for tool in _TOOLS
            if all(re.search(rf'"(?:{field})"\s*:', text) for field in tool.fields)
        ),
        None,
    )
