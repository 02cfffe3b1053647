"""Counts of the importers next to independent ones, for each file.

``python -m evaluation.recount.compare FILE...`` prints a Markdown row per file: counts over the
whole file, busy time of each device and the verdict of ``predict``. Ends with 1 if a count differs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from evaluation.recount.independent import count
from graphviz_dash.analysis.prediction.calibration import load_shipped_calibration
from graphviz_dash.analysis.prediction.predict import predict
from graphviz_dash.analysis.trace.api_calls import CallClass, get_call_class
from graphviz_dash.errors import GraphvizDashError
from graphviz_dash.ingest.formats.registry import ForeignContent, read_foreign
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.trace import WHOLE_GRAPH_PATTERN, Trace
from graphviz_dash.narrative.prediction import format_prediction_verdict

_LAUNCHES = (CallClass.KERNEL_LAUNCH, CallClass.GRAPH_LAUNCH, CallClass.COPY)
_KINDS = {"kernel": "kernels", "memcpy": "copies", "memset": "sets"}
_FIELDS = ("kernels", "copies", "sets", "launches", "graph_launches", "busy_ns", "steps")
_MEMORY_FIELDS = ("allocated", "reserved", "peak")


def count_imported(parts: Sequence[ForeignContent]) -> dict[str, Any]:
    """Counts of one file, summed over its processes."""
    (memory,) = [part.memory for part in parts if part.memory] or [None]
    if memory:
        return {
            "allocated": memory.allocated_bytes,
            "reserved": memory.reserved_bytes,
            "peak": memory.peak_allocated_bytes,
        }
    return _count_traces([part.trace for part in parts if part.trace is not None])


def _count_traces(traces: Sequence[Trace]) -> dict[str, Any]:
    kinds: Counter[str] = Counter()
    calls: Counter[CallClass] = Counter()
    spans: dict[str, list[tuple[int, int]]] = defaultdict(list)
    steps: set[str] = set()
    for trace in traces:
        work = trace.gpu.filter(~pl.col("name").cast(str).str.contains(WHOLE_GRAPH_PATTERN))
        kinds.update(work["kind"].cast(str).to_list())
        calls.update(map(get_call_class, trace.runtime["name"].cast(str).to_list()))
        for table in (trace.annotations, trace.ops):  # an operator until torch 1.8
            names = table["name"].cast(pl.String).str.extract(r"^(ProfilerStep#\d+)$")
            steps.update(names.drop_nulls().to_list())
        origin = trace.info.origin_ns
        for device, start, duration in work.select("device", "ts", "dur").iter_rows():
            spans[str(device)].append((origin + start, origin + start + duration))
    return {
        **{field: kinds[kind] for kind, field in _KINDS.items()},
        "launches": sum(calls[call] for call in _LAUNCHES),
        "graph_launches": calls[CallClass.GRAPH_LAUNCH],
        "busy_ns": {
            device: measure_union(intervals) for device, intervals in sorted(spans.items())
        },
        "steps": len(steps),
    }


def compare(counts: dict[str, Any], independent: dict[str, Any]) -> list[str]:
    """Describe each figure that differs."""
    fields = _FIELDS if "kernels" in counts else _MEMORY_FIELDS
    return [
        f"{field} {counts[field]} against {independent[field]}"
        for field in fields
        if counts[field] != independent[field]
    ]


def measure_union(spans: list[tuple[int, int]]) -> int:
    """Length of the union of ``spans``."""
    total = reach = 0
    for start, end in sorted(spans):
        total += max(end - max(start, reach), 0)
        reach = max(reach, end)
    return total


def describe_verdict(parts: Sequence[ForeignContent]) -> str:
    """Verdicts of ``predict`` on the processes of a file."""
    verdicts = []
    for part in parts:
        if part.trace is not None:
            prediction = predict(part.trace, load_shipped_calibration())
            is_missing = isinstance(prediction, Missing)
            verdicts.append(
                prediction.reason if is_missing else format_prediction_verdict(prediction)
            )
    return "; ".join(dict.fromkeys(verdicts)) or "-"


def _format_counts(counts: dict[str, Any]) -> str:
    if "allocated" in counts:
        total, peak = counts["reserved"], counts["peak"]
        return f"{counts['allocated']:,} of {total:,} B, peak {peak}"
    busy = ", ".join(f"{name}: {ns / 1e6:.3f}" for name, ns in counts["busy_ns"].items()) or "0"
    work = f"{counts['kernels']}/{counts['copies']}/{counts['sets']}"
    return (
        f"{work} | {counts['launches']} ({counts['graph_launches']}) | {busy} | {counts['steps']}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="+")
    different = 0
    for path in parser.parse_args().files:
        with tempfile.TemporaryDirectory() as scratch:
            try:
                parts = read_foreign(path, Path(scratch))
            except GraphvizDashError as error:
                print(f"| {path.name} | refused | {error} |", flush=True)
                continue
            try:
                independent = count(path)
            except (ValueError, KeyError, TypeError) as error:
                print(f"| {path.name} | not counted | {error!r} |", flush=True)
                continue
            counts = count_imported(parts)
            differences = compare(counts, independent)
            different += bool(differences)
            verdict = describe_verdict(parts)
            result = "; ".join(differences) or "same"
        print(f"| {path.name} | {_format_counts(independent)} | {result} | {verdict} |", flush=True)
    print(f"{different} files differ", file=sys.stderr)
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
