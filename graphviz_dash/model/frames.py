"""Names of Python frames in traces of torch.profiler: ``file(line): function``."""

from __future__ import annotations

import re
from typing import Final

FRAME: Final = re.compile(r"(.+)\((\d+)\): ")
"""File and first line of a frame's function."""

# Excluded frames: built-ins, modules and frozen code have no line. torch, compiler output, the
# collector and forwarding parts of the standard library are not of interest. Kineto omits the
# folder of a package ("torch/_tensor.py"), so site-packages alone is not sufficient.
LIBRARY_FRAME: Final = re.compile(
    r"^(torch/|triton/|<|nn\.Module: |collectors/(?!workloads/)"
    r"|(abc|asyncio/.*|concurrent/.*|contextlib|copy|enum|functools|importlib/.*|inspect"
    r"|multiprocessing/.*|runpy|threading|typing|weakref)\.py\()"
    r"|site-packages|dist-packages|torchinductor_[^/]*/\w\w/|/inductor_cache/"
)
"""Frames that are not part of the program."""
