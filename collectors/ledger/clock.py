"""Start times of this process on the clock of ``time.perf_counter_ns``."""

from __future__ import annotations

import os
import sys
import time
from typing import Final, NamedTuple

BIRTH: Final = "_graphviz_dash_birth"
"""Attribute of ``sys`` set by ``collectors/program/inject/sitecustomize.py``: process id, start of
that module, begin and end of the import of torch, in ns."""


class Birth(NamedTuple):
    """Times of a Python process before the recorder, in ns."""

    pid: int
    python: int
    """The interpreter runs Python code."""
    torch_begin: int
    torch_end: int


def read_birth() -> Birth | None:
    """Return the times noted by sitecustomize, or None."""
    times = getattr(sys, BIRTH, None)
    if not isinstance(times, tuple) or len(times) != len(Birth._fields):
        return None
    birth = Birth(*times)
    return birth if birth.pid == os.getpid() else None


def read_process_start() -> int:
    """Read the start of this process, in ns. The kernel rounds it down to 10 ms.

    On Linux ``time.perf_counter_ns`` is the monotonic clock, which all processes share.
    """
    now = time.perf_counter_ns()
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        since_boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    except (OSError, ValueError, IndexError, AttributeError):
        return now
    age = since_boot - ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    return now - age if 0 <= age < now else now
