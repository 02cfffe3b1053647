"""A fixed piece of Python work, timed beside the step: it takes longer where others use the host's
processors, or their clocks are down. Imports nothing but the clock."""

from __future__ import annotations

import time
from typing import Final

TURNS: Final = 20
"""How often the loop is timed in a row: some 10 ms in all."""

_ADDITIONS: Final = 10_000


def time_cpu_loop() -> tuple[int, ...]:
    """What each of TURNS of the loop took, in ns."""
    clock = time.perf_counter_ns
    rows = []
    for _ in range(TURNS):
        begin = clock()
        total = 0
        for number in range(_ADDITIONS):
            total += number
        rows.append(clock() - begin)
    return tuple(rows)
