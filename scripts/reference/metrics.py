"""The metrics, from their registry, and the thresholds of outcomes and warnings."""

from __future__ import annotations

from typing import Final

from graphviz_dash.analysis.metrics.registry import SECTIONS, Better
from graphviz_dash.analysis.metrics.thresholds import (
    DRIFT,
    FEW_ITERATIONS,
    FEW_STEPS,
    FEW_TRACED_STEPS,
    LARGE_REMAINDER,
    LONG_STEP_MEDIANS,
    MAX_LONG_STEP_SHARE,
    MIN_OBSERVER_EFFECT,
    MODEST_SPEEDUP,
    MUCH_COMMUNICATION,
    SLIGHT_SPEEDUP,
    STRONG_OBSERVER,
    WIDE_RELATIVE_SPREAD,
)
from graphviz_dash.features.launch.narrative import build_metrics_chapter

_WEAK: Final = f"""
## Low-confidence metrics

Every page and report marks a figure with low confidence and gives advice. The reasons are:

- fewer than {FEW_ITERATIONS} iterations in a clean series, or fewer than {FEW_TRACED_STEPS} traced
  steps;
- quartiles of a clean series that are more than {WIDE_RELATIVE_SPREAD:.0%} of the median apart;
- medians of the first and second half of a clean series that differ by more than {DRIFT:.0%};
- a speedup whose 95% interval contains 1;
- an observer effect of at least {STRONG_OBSERVER}, or below {MIN_OBSERVER_EFFECT};
- more GPU busy time in the traced pass than step time in the clean pass;
- communication above {MUCH_COMMUNICATION:.0%} of the busy time of one rank of several: a collective
  that waits for another rank counts as busy;
- a baseline with another GPU, driver, CUDA, torch, workload, seed or parameters;
- a remainder above {LARGE_REMAINDER:.0%} of the baseline's step;
- fewer than {FEW_STEPS} recorded steps, or a failed or unreadable capture;
- steps longer than {LONG_STEP_MEDIANS} medians that use more than
  {MAX_LONG_STEP_SHARE:.0%} of the loop, if profiled steps are shorter than the mean;
- While nodes, for which the profiler shows only the last iteration;
- a trace with defects or without marked steps.
"""

_OUTCOME: Final = f"""
## The outcome

The speedup decides whether a run is faster than its baseline. Pages, terminal, reports and JSON use
the same words:

- *no significant difference* if the 95% interval of the speedup contains 1;
- otherwise *slower* below 1 and *faster* above 1;
- modest below {MODEST_SPEEDUP:g}, and slight below {SLIGHT_SPEEDUP:g};
- not worth it as it stands if the doctor found that replays do other work than the step.

The speedup of recorded programs has no interval and is used as it is.
"""


def format_body() -> str:
    """A section for each group of metrics, then launch costs, outcomes and warnings."""
    parts = []
    for title, group in SECTIONS.items():
        parts.append(f"\n## {title}\n")
        for metric in group:
            facts = f"`{metric.id}`, {metric.unit.value}, {metric.source.value}"
            if metric.better is not Better.NONE:
                facts += f", {metric.better.value} is better"
            if metric.estimate:
                facts += ", estimate"
            parts.append(f"\n### {metric.title}\n\n{facts}\n\n{metric.formula}\n")
    return "".join((*parts, build_metrics_chapter(), _OUTCOME, _WEAK))
