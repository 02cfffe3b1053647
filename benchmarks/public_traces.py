"""What graphviz-dash says of a folder of other people's traces, beside an independent count.

    python benchmarks/public_traces.py FOLDER [--independent COUNTS.jsonl] [--markdown]

Each trace is read, its steps are counted and a prediction is asked for. Beside each count stands
that of ``independent_count.py``, which shares no code with it. Ends with 1 where a share of a step
passes 100%, which nothing may do. ``--independent`` takes counts that were made before.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

from graphviz_dash.analysis.prediction.calibration import load_shipped_calibration
from graphviz_dash.analysis.prediction.idle_time import IdleCause, analyse_idle_time
from graphviz_dash.analysis.prediction.predict import predict
from graphviz_dash.analysis.trace.steps import Step, StepMethod, find_steps
from graphviz_dash.errors import GraphvizDashError
from graphviz_dash.features.ranks.fleet import summarise_rank
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.trace import Trace
from graphviz_dash.narrative.prediction import format_prediction_verdict

sys.path.insert(0, str(Path(__file__).parent))

from independent_count import count

COUNTS = ("kernels", "copies", "sets", "launches", "graphs", "busy_ns")


def ours(path: Path) -> dict[str, Any]:
    """The counts of one trace, the shares that may pass 100%, and the verdict."""
    trace = read_trace(path)
    traced_steps = find_steps(trace)
    is_whole_trace = traced_steps[0].method is StepMethod.WHOLE
    read: dict[str, Any] = {
        "kernels": lambda step: step.kernels,
        "copies": lambda step: step.copies,
        "sets": lambda step: step.sets,
        "launches": lambda step: step.launches,
        "graphs": lambda step: step.graph_launches,
        "busy_ns": lambda step: step.busy_ns,
        "span_ns": lambda step: step.duration_ns,
    }
    medians = {
        name: statistics.median(value(step) for step in traced_steps)
        for name, value in read.items()
    }
    prediction = predict(trace, load_shipped_calibration())
    idle = None
    if isinstance(prediction, Missing):
        reason = prediction.reason
    else:
        reason = format_prediction_verdict(prediction)
        parts = analyse_idle_time(trace, prediction.step, mean=True).parts
        idle = {part.cause.value: part.ns for part in parts}
    return {
        "trace": path.name,
        "marks": traced_steps[0].method.value,
        "steps": 0 if is_whole_trace else len(traced_steps),
        **medians,
        "share": _share(traced_steps),
        "idle": idle,
        "above": _above(trace, traced_steps),
        "verdict": reason,
    }


def _share(traced_steps: tuple[Step, ...]) -> float | None:
    """The median of the steps' shares in which the GPU was busy."""
    shares = [step.busy_ns / step.duration_ns for step in traced_steps if step.duration_ns > 0]
    return statistics.median(shares) if shares else None


def _above(trace: Trace, traced_steps: tuple[Step, ...]) -> list[str]:
    """Shares above 100%."""
    shares = [
        f"step {step.index}: busy {step.busy_ns} of {step.duration_ns} ns"
        for step in traced_steps
        if step.busy_ns > step.duration_ns
    ]
    (rank,) = summarise_rank(trace, "trace", "trace", None, None).ranks
    parts = ("busy_ns", "compute_ns", "communication_ns", "launch_bound_ns")
    if rank["step_ns"] is not None:
        shares += [f"{part} of fleet" for part in parts if (rank[part] or 0) > rank["step_ns"]]
    return shares


def _milliseconds(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e6:.2f}"


def _row(own: dict[str, Any], other: dict[str, Any]) -> list[str]:
    pairs = [
        _pair(f"{own[name]:g}", f"{other[name]:g}")
        for name in ("steps", "kernels", "copies", "sets", "launches", "graphs")
    ]
    busy = _pair(_milliseconds(own["busy_ns"]), _milliseconds(other["busy_ns"]))
    share = "-" if own["share"] is None else f"{100 * own['share']:.1f}"
    return [own["trace"], own["marks"], *pairs, busy, share, _idle(own, other), own["verdict"]]


def _idle(own: dict[str, Any], other: dict[str, Any]) -> str:
    """Idle time by cause, in percent of the step: data, waiting and the rest."""
    if own["idle"] is None or not own["span_ns"] or not other["idle_ns"]:
        return "-"
    causes = (IdleCause.DATA.value, IdleCause.WAITING.value)
    idle_shares = [own["idle"].get(cause, 0.0) for cause in causes]
    ours_ns = [*idle_shares, sum(own["idle"].values()) - sum(idle_shares)]
    theirs_ns = [other["idle_ns"][cause] for cause in ("data", "waiting", "other")]
    return _pair(
        *(
            " / ".join(f"{100 * ns / own['span_ns']:.0f}" for ns in side)
            for side in (ours_ns, theirs_ns)
        )
    )


def _pair(own: str, other: str) -> str:
    return own if own == other else rf"{own} \| {other}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--independent", type=Path)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--only", default="", help="part of the names of the traces")
    options = parser.parse_args()
    counts: dict[str, dict[str, Any]] = {}
    if options.independent:
        lines = map(json.loads, options.independent.read_text().splitlines())
        counts = {line["trace"]: line for line in lines}
    failures = 0
    for path in sorted(options.folder.glob("*.json*")):
        if options.only not in path.name:
            continue
        try:
            own = ours(path)
        except GraphvizDashError as error:
            print(f"{path.name}: {error}", file=sys.stderr)
            continue
        other = counts.get(path.name) or count(path)
        failures += bool(own["above"])
        if options.markdown:
            print("| " + " | ".join(_row(own, other)) + " |", flush=True)
        else:
            print(json.dumps({"ours": own, "independent": other}), flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
