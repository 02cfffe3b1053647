"""Start parameters of processes that read traces. Imports nothing large."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import graphviz_dash

PROCESSES_VARIABLE: Final = "GRAPHVIZ_DASH_PROCESSES"
"""Environment variable: maximum processes per trace. 1 disables other processes."""


def get_module_path() -> list[str]:
    """Return the module search path of this process, without the current folder unless listed."""
    package_root = str(Path(graphviz_dash.__file__).resolve().parent.parent)
    return [package_root, *(folder for folder in sys.path if folder)]
