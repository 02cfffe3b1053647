"""Predictions for eager traces of other people: none may be below what the GPU must do in the order
in which it must be done.

``python -m evaluation.predict.public FOLDER`` prints a Markdown row for each trace in it (plain or
gzip) that has a step: its work, the predicted graph, the least that it can take, what remains of
the idle time, the verdict, and the most that the trace allows. The least is told from the intervals
of the GPU alone: the most that one stream has to do, and all work together where no two streams
ever worked at once. So is the most that it allows: in gaps of more than a millisecond the GPU waits
for something else than launches. Ends with 1 where a prediction is below the one or above the
other.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

import numpy as np

from graphviz_dash.analysis.prediction.calibration import load_shipped_calibration
from graphviz_dash.analysis.prediction.eager_step import EagerStep
from graphviz_dash.analysis.prediction.predict import Prediction, predict
from graphviz_dash.errors import InputError
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.model.absence import Missing
from graphviz_dash.units import format_ns, format_percent, format_ratio
from tests.analysis.gap_bound import AT_MOST, compute_gap_bound, measure_longest_stream

_AT_ONCE: Final = 0.001
"""The part of the work that may overlap by the clocks of the trace alone."""


def least_ns(step: EagerStep) -> int:
    """Shortest duration of the work of ``step``, by its intervals."""
    exclusive_ns = step.exclusive_duration - step.overlapped
    begin, end = step.begin, step.begin + step.duration
    order = np.argsort(begin, kind="stable")
    reach = np.maximum.accumulate(end[order])
    union = int(np.diff(np.concatenate(([int(begin.min())], np.maximum(reach, 0)))).sum())
    gaps = int(np.maximum(begin[order][1:] - reach[:-1], 0).sum())
    work = int(step.duration.sum())
    concurrent_ns = work - (union - gaps)
    return (
        int(exclusive_ns.sum())
        if concurrent_ns <= _AT_ONCE * work
        else measure_longest_stream(step)
    )


def row(source: str, prediction: Prediction, min_ns: int, max_ns: float) -> str:
    step = prediction.step
    speedup = prediction.speedup
    gain = "" if isinstance(speedup, Missing) else format_ratio(speedup.value)
    kept_idle = prediction.idle.remaining
    return (
        f"| `{source}` | {step.method.value} | {len(step)} | {step.stream_count} | "
        f"{format_ns(round(prediction.eager_ns))} | {format_ns(step.busy_ns)} | "
        f"{format_ns(min_ns)} | {format_ns(round(prediction.replay.total_ns))} | "
        f"{format_percent(prediction.idle.remaining_share)} | "
        f"{kept_idle[0].cause.value if kept_idle else ''} | "
        f"{prediction.recommendation.value} | {gain} | {format_ratio(max_ns)} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    below_count = above_count = 0
    print(
        "| trace | steps | work | streams | eager step | GPU busy | at least | predicted graph | "
        "idle that remains | mostly | verdict | speedup | its gaps allow |"
    )
    print("| --- " * 2 + "| ---: " * 7 + "| --- | --- | ---: | ---: |")
    for path in sorted(parser.parse_args().folder.glob("*.json*")):
        try:
            trace = read_trace(path)
            prediction = predict(trace, load_shipped_calibration())
        except InputError as error:
            print(f"{path.name}: {error}", file=sys.stderr)
            continue
        if isinstance(prediction, Missing):
            print(f"{path.name}: {prediction.reason}", file=sys.stderr)
            continue
        min_ns = least_ns(prediction.step)
        max_ns = compute_gap_bound(trace, prediction.step)
        speedup = prediction.speedup
        below_count += prediction.replay.total_ns < min_ns
        above_count += not isinstance(speedup, Missing) and speedup.value > AT_MOST * max_ns
        print(row(path.name, prediction, min_ns, max_ns), flush=True)
    print(f"{below_count} predictions are below what the GPU must do", file=sys.stderr)
    print(f"{above_count} predictions are above what the gaps allow", file=sys.stderr)
    return int(below_count + above_count > 0)


if __name__ == "__main__":
    sys.exit(main())
