"""Thresholds for low-confidence, distorted or slight metrics."""

from __future__ import annotations

from typing import Final

FEW_ITERATIONS: Final = 30
"""Minimum iterations of a clean series; fewer give unreliable quartiles."""

FEW_TRACED_STEPS: Final = 5

FEW_STEPS: Final = 20

LONG_STEP_MEDIANS: Final = 2
"""A step of a program's loop is long if it exceeds this many medians."""

MAX_LONG_STEP_SHARE: Final = 0.5
"""Share of a program's loop in long steps above which the mean step is not representative."""

WIDE_RELATIVE_SPREAD: Final = 0.10
"""Maximum distance between the quartiles of a clean series, relative to its median."""

DRIFT: Final = 0.10
"""Maximum difference between the medians of a clean series' halves, relative to its median."""

BUSY_HOST: Final = 1.10
"""Slowdown of the fixed CPU loop above which the host counts as busy."""

MAX_CLOCK_RATIO: Final = 1.03
"""Ratio of GPU clocks between processes above which the difference is reported."""

STRONG_OBSERVER: Final = 1.5
"""Observer effect from which the traced pass counts as distorted."""

MUCH_COMMUNICATION: Final = 0.25
"""Communication share of a rank's GPU busy time above which waiting is reported as possible."""

MIN_OBSERVER_EFFECT: Final = 0.8
"""Observer effect below which the passes do not match: a profiler never speeds up a step."""

LARGE_REMAINDER: Final = 0.05
"""Remainder, relative to the baseline's step, above which the breakdown has low confidence."""

SLIGHT_SPEEDUP: Final = 1.02
"""A speedup below this is called marginal, even if its interval excludes 1."""

MODEST_SPEEDUP: Final = 1.2
"""A speedup below this, if not marginal, is called modest ("a little")."""
