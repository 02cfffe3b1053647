"""End a pass when its collector ends.

Source: prctl(2), PR_SET_PDEATHSIG. On other systems an orphan finishes its pass and its results are
ignored.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Final

PARENT: Final = "GRAPHVIZ_DASH_COLLECTOR"
"""Environment variable with the collector's process id, for its passes."""

_PR_SET_PDEATHSIG: Final = 1
_ORPHANED: Final = 1


def exit_with_parent() -> None:
    """Kill this process when its parent ends, immediately if it already has."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    expected = os.environ.get(PARENT)
    if expected is not None and expected != str(os.getppid()):
        sys.exit(_ORPHANED)
