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

_ARROWS: Final = {Better.LOWER: "↓", Better.HIGHER: "↑"}

_WEAK: Final = f"""
## Low-confidence metrics

Pages and reports mark a figure with low confidence. Reasons, and remedies after the arrow:

- fewer than {FEW_ITERATIONS} iterations or {FEW_TRACED_STEPS} traced steps → raise
  `--iterations`, `--traced-iterations`
- quartiles of a clean series more than {WIDE_RELATIVE_SPREAD:.0%} of the median apart → quieter
  machine, more `--processes`
- medians of the first and second half differ by more than {DRIFT:.0%} → raise `--warmup`
- a speedup whose 95% interval contains 1 → [The interval includes
  1](../how-to/measure-a-step.md#the-interval-includes-1)
- an observer effect of at least {STRONG_OBSERVER}, or below {MIN_OBSERVER_EFFECT} → use clean
  figures
- more traced GPU busy time than clean step time: clocks changed → collect again
- communication above {MUCH_COMMUNICATION:.0%} of the busy time of a rank: waiting counts as
  work → Ranks page
- a baseline with another GPU, driver, CUDA, torch, workload, seed or parameters → collect both
  together
- a remainder above {LARGE_REMAINDER:.0%} of the baseline's step → use the total and not the
  parts
- fewer than {FEW_STEPS} recorded steps, or a failed or unreadable capture → run longer, or
  lower `--skip`
- steps longer than {LONG_STEP_MEDIANS} medians use more than {MAX_LONG_STEP_SHARE:.0%} of the
  loop → exclude checkpoints and evaluation
- While nodes: node times are those of the last iteration
- a trace with [defects](import-dialects.md#defects-of-a-trace) or without marked steps
"""

_OUTCOME: Final = f"""
## The outcome

The speedup decides whether a run is faster than its baseline. Pages, terminal, reports and JSON use
the same words:

- *no significant difference* if the 95% interval of the speedup contains 1;
- otherwise *slower* below 1 and *faster* above 1;
- modest below {MODEST_SPEEDUP:g}, and slight below {SLIGHT_SPEEDUP:g};
- not worth it as it stands if the doctor found that replays compute a different result.

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
                facts += f", {_ARROWS[metric.better]}"
            if metric.estimate:
                facts += ", estimate"
            parts.append(f"\n### {metric.title}\n\n{facts}\n\n{metric.formula}\n")
    return "".join((*parts, build_metrics_chapter(), _OUTCOME, _WEAK))
