"""What memory this machine has and this process takes, as far as the system says."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

_GROUP_LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""What a container may take, of both versions of control groups."""
_STATUS: Final = Path("/proc/self/status")
_RESET_PEAK: Final = "5"  # proc(5), clear_refs


@cache
def machine_memory() -> int | None:
    """The bytes that this machine has, or the container that this process runs in where that is
    less; None on a system that does not say."""
    try:
        known = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (AttributeError, ValueError, OSError):
        return None
    for path in _GROUP_LIMITS:
        try:
            known.append(int(path.read_text()))
        except (OSError, ValueError):  # another version, or "max"
            continue
    return min((size for size in known if size > 0), default=None)


def own_memory() -> int | None:
    """The bytes that this process has for itself and that are in memory (RssAnon of proc(5)): not
    those of files, which the system can drop; None where the system does not say."""
    return _status("RssAnon:")


def peak_memory() -> int | None:
    """The most bytes that this process had in memory since :func:`forget_peak` (VmHWM of proc(5)),
    those of files included; None where the system does not say."""
    return _status("VmHWM:")


def forget_peak() -> None:
    """Has :func:`peak_memory` begin anew, where the system can."""
    try:
        Path("/proc/self/clear_refs").write_text(_RESET_PEAK)
    except OSError:
        return


def give_back() -> None:
    """Gives the pages that were freed back to the system, which glibc else keeps: hundreds of MB
    after the arrays of a large trace. Elsewhere nothing needs to be done, or can be."""
    trim = _trimmer()
    if trim is not None:
        trim(0)


def _status(field: str) -> int | None:
    try:
        text = _STATUS.read_text()
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith(field):
            return int(line.split()[1]) << 10
    return None


@cache
def _trimmer() -> Callable[[int], int] | None:
    if sys.platform != "linux":
        return None
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim
