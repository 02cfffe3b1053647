"""docs/metrics.md, written from the registry of metrics::

python -m scripts.metrics_page > docs/metrics.md
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
    LONG_STEP,
    MODEST_SPEEDUP,
    MUCH_COMMUNICATION,
    MUCH_OF_THE_LOOP,
    SLIGHT_SPEEDUP,
    STRONG_OBSERVER,
    UNLIKE_OBSERVER,
    WIDE_SPREAD,
)
from graphviz_dash.features.launch.narrative import metrics_chapter

_INTRODUCTION = """\
# Metrics

<!-- Written from registry.py by `python -m scripts.metrics_page`; `make docs`. -->

Each figure that the pages, the command line and the exports show is defined here, once. Inside
and in JSON a time is in nanoseconds, a size in bytes, a fraction between 0 and 1.

- *Pass* says where a figure comes from. In the **clean** pass no profiler is ever attached to the
  process; the **capture** and **traced** passes run under torch.profiler, each in a process of its
  own; **memory** is the allocator's account at the end of the clean pass; the **memory pass** is
  a process in which torch's memory recorder runs. A figure that divides one pass by another says
  so. **recorded** is no pass: a program ran once, as it is, and the recorder watched.
- The *spread* beside a median is the range from the 25th to the 75th percentile of its series
  (linear interpolation), with the number of samples, unless the metric says otherwise.
- A figure that a run does not have is absent with a reason; it is never 0.
- A *step* of a trace is the range `graphviz_dash.step#i`, which ends after a synchronisation. In a
  trace without such ranges the profiler's own `ProfilerStep#i` are taken, which need not end
  synchronised; without these the trace is not divided, and figures per step are absent.
"""


_WEAK = f"""
## Low-confidence metrics

A figure is shown whatever it rests on, but it says so when its confidence is low, with what to do:

- fewer than {FEW_ITERATIONS} iterations in a clean series, or fewer than {FEW_TRACED_STEPS}
  traced steps;
- quartiles of a clean series further apart than {WIDE_SPREAD:.0%} of its median;
- medians of the first and the second half of a clean series that differ by more than {DRIFT:.0%}:
  it was still warming up, or the machine changed under it;
- a 95% interval of the speedup that holds 1: no significant difference;
- an observer effect of {STRONG_OBSERVER} or more, or one below {UNLIKE_OBSERVER};
- GPU busy time of the traced pass above the step time of the clean pass;
- communication above {MUCH_COMMUNICATION:.0%} of the GPU busy time of one rank of several: a
  collective that waits for another rank runs on the GPU all the while, and counts as work wherever
  busy time is divided;
- a baseline from another GPU, driver, CUDA or torch version, or of another workload, seed or
  parameters of the workload;
- a remainder of the equation above {LARGE_REMAINDER:.0%} of the baseline's step time;
- fewer than {FEW_STEPS} recorded steps of a program, and a capture of it that failed or could not
  be read;
- steps of a program's loop above {LONG_STEP} medians that together take more than
  {MUCH_OF_THE_LOOP:.0%} of it, where a step under the profiler is shorter than the mean;
- While nodes in a graph, of which the profiler shows the last turn of each launch alone;
- a trace that has defects, or marks no steps.
"""

_OUTCOME = f"""
## The outcome

Whether a run is faster than its baseline is decided once, from its speedup, and worded alike on
pages, in the terminal, in reports and in JSON:

- *no significant difference* where the 95% interval of the speedup holds 1;
- else *slower* below 1, and *faster* above it;
- a speedup below {MODEST_SPEEDUP:g} is modest: the answer begins with "A little" instead of "Yes",
- a speedup below {SLIGHT_SPEEDUP:g} is slight: the answer begins with "Hardly",
  for a measured run as for a prediction;
- a run that is faster, and of which a doctor found that its replays do other work than the step, is
  not worth it as it stands.

The speedup of recorded programs has no interval, and is taken as it is.
"""


def markdown() -> str:
    """docs/metrics.md."""
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
    return "".join((*parts, metrics_chapter(), _OUTCOME, _WEAK))


if __name__ == "__main__":
    sys.stdout.write(markdown())
