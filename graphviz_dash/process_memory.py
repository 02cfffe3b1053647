"""Read the memory of this machine and this process, and release free memory."""

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
"""Limits of a container, for both versions of control groups."""
_STATUS: Final = Path("/proc/self/status")
_RESET_PEAK: Final = "5"  # proc(5), clear_refs


@cache
def get_machine_memory() -> int | None:
    """Return the memory of this machine or container in bytes; None if unknown."""
    try:
        limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (AttributeError, ValueError, OSError):
        return None
    for path in _GROUP_LIMITS:
        try:
            limits.append(int(path.read_text()))
        except (OSError, ValueError):  # another version, or "max"
            continue
    return min((size for size in limits if size > 0), default=None)


def get_own_memory() -> int | None:
    """Return the anonymous resident bytes of this process (RssAnon of proc(5)); None if unknown.

    Excludes file pages, which the system can drop.
    """
    return _read_status("RssAnon:")


def get_peak_memory() -> int | None:
    """Return the peak resident bytes since :func:`reset_peak` (VmHWM of proc(5)); None if unknown.

    Includes file pages.
    """
    return _read_status("VmHWM:")


def reset_peak() -> None:
    """Reset :func:`get_peak_memory`, if the system supports it."""
    try:
        Path("/proc/self/clear_refs").write_text(_RESET_PEAK)
    except OSError:
        return


def release_free_memory() -> None:
    """Return freed pages to the system.

    glibc otherwise keeps hundreds of MB after the arrays of a large trace. Does nothing on other
    systems.
    """
    trim = _load_malloc_trim()
    if trim is not None:
        trim(0)


def _read_status(field: str) -> int | None:
    try:
        text = _STATUS.read_text()
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith(field):
            return int(line.split()[1]) << 10
    return None


@cache
def _load_malloc_trim() -> Callable[[int], int] | None:
    if sys.platform != "linux":
        return None
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim
