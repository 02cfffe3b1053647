"""From which values on a figure is called weak, distorted or slight."""

from __future__ import annotations

from typing import Final

FEW_ITERATIONS: Final = 30
"""A clean series below this is called weak: its quartiles rest on a handful of values."""

FEW_TRACED_STEPS: Final = 5
"""Traced steps below this are called weak."""

FEW_STEPS: Final = 20
"""Recorded steps of a program below this are called weak."""

LONG_STEP: Final = 2
"""A step of a program's loop above so many medians is a long one."""

MUCH_OF_THE_LOOP: Final = 0.5
"""Where long steps take more than this part of a program's loop, its mean step is of none."""

WIDE_SPREAD: Final = 0.10
"""A clean series whose quartiles lie further apart than this part of its median is called weak."""

DRIFT: Final = 0.10
"""A clean series whose halves' medians differ by more than this part of its median drifts."""

BUSY_HOST: Final = 1.10
"""Above this slowdown of the fixed CPU loop the host is called busy."""

UNLIKE_CLOCKS: Final = 1.03
"""Clocks of the GPU that differ by more than this between processes are told."""

STRONG_OBSERVER: Final = 1.5
"""From this observer effect on the traced pass is called distorted."""

MUCH_COMMUNICATION: Final = 0.25
"""Communication above this part of a rank's GPU busy time is told, for it may be waiting."""

UNLIKE_OBSERVER: Final = 0.8
"""Below this observer effect the two passes did not run alike: no profiler speeds a step up."""

LARGE_REMAINDER: Final = 0.05
"""A remainder above this part of the baseline's step makes the equation weak."""

SLIGHT_SPEEDUP: Final = 1.02
"""A speedup below this is called slight ("hardly"), though its interval leaves 1 out."""

MODEST_SPEEDUP: Final = 1.2
"""A speedup below this, and not slight, is called modest ("a little")."""
