"""Start parameters of processes that read traces. Imports nothing large."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path
from typing import Final

import graphviz_dash

PROCESSES_VARIABLE: Final = "GRAPHVIZ_DASH_PROCESSES"
"""Environment variable: maximum processes per trace. 1 disables other processes."""


_PR_SET_PDEATHSIG: Final = 1


def end_with_parent(parent: int) -> None:
    """Let the kernel kill this process when ``parent`` ends.

    Only on Linux. Source: prctl(2), PR_SET_PDEATHSIG.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended already
        os._exit(1)


def get_module_path() -> list[str]:
    """Return the module search path of this process, without the current folder unless listed."""
    package_root = str(Path(graphviz_dash.__file__).resolve().parent.parent)
    return [package_root, *(folder for folder in sys.path if folder)]
