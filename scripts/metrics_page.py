"""Write docs/metrics.md from the metric registry.

python -m scripts.metrics_page > docs/metrics.md.
"""

from __future__ import annotations

import sys

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

_INTRODUCTION = """\
# Metrics

<!-- Generated from registry.py by `python -m scripts.metrics_page`; `make docs`. -->

This page defines every metric of the pages, the command line and the exports. Internally and in
JSON, times are in nanoseconds, sizes in bytes, and fractions between 0 and 1.

- *Pass* is the source of a metric. The **clean** pass never attaches a profiler. The **capture**
  and **traced** passes run under torch.profiler, each in a separate process. **memory** is the
  allocator's state at the end of the clean pass. The **memory pass** runs torch's memory recorder
  in a separate process. A metric that divides one pass by another names both. **recorded** is not
  a pass: the program ran once, unmodified, under the recorder.
- The *spread* next to a median is the range from the 25th to the 75th percentile of its series
  (linear interpolation), with the number of samples, unless the metric says otherwise.
- A metric that a run lacks is absent with a reason; it is never 0.
- A *step* of a trace is the range `graphviz_dash.step#i`, which ends after a synchronization.
  Traces without such ranges use the profiler's `ProfilerStep#i`, which may end without one. Without
  either, the trace is not divided, and metrics per step are absent.
"""


_WEAK = f"""
## Low-confidence metrics

All metrics are shown, with a note and advice if their confidence is low:

- fewer than {FEW_ITERATIONS} iterations in a clean series, or fewer than {FEW_TRACED_STEPS}
  traced steps;
- an interquartile range of a clean series above {WIDE_RELATIVE_SPREAD:.0%} of its median;
- medians of the first and second half of a clean series that differ by more than {DRIFT:.0%}: the
  run was still warming up, or the machine changed;
- a 95% interval of the speedup that contains 1: no significant difference;
- an observer effect of {STRONG_OBSERVER} or more, or one below {MIN_OBSERVER_EFFECT};
- GPU busy time of the traced pass above the step time of the clean pass;
- communication above {MUCH_COMMUNICATION:.0%} of the GPU busy time of one of several ranks: a
  collective that waits for another rank occupies the GPU and counts as work in all divisions of
  busy time;
- a baseline with a different GPU, driver, CUDA or torch version, workload, seed or workload
  parameters;
- a remainder of the equation above {LARGE_REMAINDER:.0%} of the baseline's step time;
- fewer than {FEW_STEPS} recorded steps of a program, or a capture of it that failed or is
  unreadable;
- steps of a program's loop above {LONG_STEP_MEDIANS} medians that total more than
  {MAX_LONG_STEP_SHARE:.0%} of it, if a step under the profiler is shorter than the mean;
- While nodes in a graph: the profiler shows only the last iteration of each launch;
- a trace that is damaged, or marks no steps.
"""

_OUTCOME = f"""
## The outcome

The speedup decides whether a run is faster than its baseline. Pages, terminal, reports and JSON use
the same words:

- *no significant difference* if the 95% interval of the speedup contains 1;
- otherwise *slower* below 1, and *faster* above it;
- a speedup below {MODEST_SPEEDUP:g} is modest: the answer begins with "A little" instead of "Yes",
- a speedup below {SLIGHT_SPEEDUP:g} is slight: the answer begins with "Hardly",
  for a measured run as for a prediction;
- a faster run is not worthwhile if the doctor found that its replays do different work than the
  step.

The speedup of recorded programs has no interval and is used unchanged.
"""


def format_page() -> str:
    """Format docs/metrics.md."""
    parts = [_INTRODUCTION]
    for title, group in SECTIONS.items():
        parts.append(f"\n## {title}\n")
        for metric in group:
            facts = f"`{metric.id}` · {metric.unit.value} · pass: {metric.source.value}"
            if metric.better is not Better.NONE:
                facts += f" · {metric.better.value} is better"
            if metric.estimate:
                facts += " · an estimate"
            parts.append(f"\n### {metric.title}\n\n{facts}\n\n{metric.formula}\n")
    return "".join((*parts, build_metrics_chapter(), _OUTCOME, _WEAK))


if __name__ == "__main__":
    sys.stdout.write(format_page())
