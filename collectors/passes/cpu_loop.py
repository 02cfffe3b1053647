"""Time a fixed piece of Python work to detect CPU contention or low CPU clocks.

Imports only the clock.
"""

from __future__ import annotations

import time
from typing import Final

REPEATS: Final = 20
"""Repeats of the loop, about 10 ms in total."""

_ADDITIONS: Final = 10_000


def time_cpu_loop() -> tuple[int, ...]:
    """Return the time of each of REPEATS loops in ns."""
    clock = time.perf_counter_ns
    rows = []
    for _ in range(REPEATS):
        begin = clock()
        total = 0
        for number in range(_ADDITIONS):
            total += number
        rows.append(clock() - begin)
    return tuple(rows)
