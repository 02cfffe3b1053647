"""What every process that reads traces is started with; nothing large is imported for it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import graphviz_dash

PROCESSES_VARIABLE: Final = "GRAPHVIZ_DASH_PROCESSES"
"""Environment variable: how many processes may read one trace; 1: no other than this."""


def module_path() -> list[str]:
    """Where this process finds modules; the current folder only if it is named."""
    own = str(Path(graphviz_dash.__file__).resolve().parent.parent)
    return [own, *(folder for folder in sys.path if folder)]
