"""Garbage collection while imports create objects, almost none of which are garbage."""

from __future__ import annotations

import gc
from typing import Final

_OBJECTS_BETWEEN_SCANS: Final = 50_000


def raise_scan_threshold() -> tuple[int, int, int]:
    """Scan for garbage after 50,000 new objects at least, not after each few hundred.

    Scans cost a sixth of the start of most commands.

    Returns:
        The thresholds before.
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(max(thresholds[0], _OBJECTS_BETWEEN_SCANS), *thresholds[1:])
    return thresholds
