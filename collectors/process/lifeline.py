"""A pass does not outlive the collector that asked for it.

Source: prctl(2), PR_SET_PDEATHSIG: the kernel sends the signal when the parent has ended, however
it ended. Elsewhere than on Linux an orphan runs its pass to the end and writes into a folder that
nobody reads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Final

PARENT: Final = "GRAPHVIZ_DASH_COLLECTOR"
"""Environment variable with the process id of the collector, for the passes it starts."""

_PR_SET_PDEATHSIG: Final = 1
_ORPHANED: Final = 1


def die_with_parent() -> None:
    """From now on this process is killed when its parent ends; at once if that has happened."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    expected = os.environ.get(PARENT)
    if expected is not None and expected != str(os.getppid()):
        sys.exit(_ORPHANED)
