"""Command and environment of our Python subprocesses, which import nothing from the working folder.

The recorded program is not such a process: it is started as the user would start it.
"""

from __future__ import annotations

import sys
from typing import Final

PYTHON: Final = (sys.executable, "-P")

SAFE_PATH: Final = {"PYTHONSAFEPATH": "1"}
"""Environment variables that extend ``-P`` to the subprocesses of a subprocess, such as the compile
workers of torch."""
