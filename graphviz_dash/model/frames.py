"""Python frames in torch's traces that show where a program calls into torch."""

from __future__ import annotations

import re
from typing import Final

FRAME: Final = re.compile(r"(.+)\((\d+)\): ")
"""File and first line of a frame's function."""

MODULE_FRAME: Final = "nn.Module: "
"""Prefix of the frame of a module's call; its class and number follow."""

BACKWARD_FRAME: Final = re.compile(
    r"torch/(_tensor|autograd/__init__)\.py\(\d+\): (backward|grad)$"
)

# Built-ins, modules and frozen code have no line. torch, compiler output, the collector and
# forwarding parts of the standard library are not of interest. Kineto omits the folder of a package
# ("torch/_tensor.py"), so site-packages alone is not sufficient.
LIBRARY_FRAME: Final = re.compile(
    r"^(torch/|triton/|<|nn\.Module: |collectors/(?!workloads/)"
    r"|(abc|asyncio/.*|concurrent/.*|contextlib|copy|enum|functools|importlib/.*|inspect"
    r"|multiprocessing/.*|runpy|threading|typing|weakref)\.py\()"
    r"|site-packages|dist-packages|torchinductor_[^/]*/\w\w/|/inductor_cache/"
)
"""Frames that do not belong to the program."""


def is_program_frame(frame: str) -> bool:
    """Check if a frame helps to find the line, module or phase of a launch."""
    return (
        frame.startswith(MODULE_FRAME)
        or not LIBRARY_FRAME.search(frame)
        or BACKWARD_FRAME.search(frame) is not None
    )
