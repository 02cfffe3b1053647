"""Counts what a trace of torch.profiler holds, sharing no code with graphviz-dash: plain JSON and
the standard library.

    python benchmarks/independent_count.py TRACE...    one JSON object for each trace

Work belongs to the step in whose CPU range the call with its correlation id began. Busy is the
union of a step's own work; if the CPU runs ahead, only the part after all earlier work. Idle is the
rest of the steps (without marks, of the trace), divided coarsely by CPU activity.
"""

from __future__ import annotations

import bisect
import gzip
import json
import re
import statistics
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

GPU = {"kernel": "kernels", "gpu_memcpy": "copies", "gpu_memset": "sets"}
CALLS = {"cuda_runtime", "cuda_driver", "runtime"}
ANNOTATIONS = {"user_annotation", "operator"}
MARKS = (
    r"ProfilerStep#\d+$",
    r"execute_(\d+_)?(context|diffusion)|step\[",
    r"((train|eval|test|inference)\w*[ _:]?)?(step|iter|iteration)[ _#:]*\d*$",
)
LAUNCH = re.compile(r"^(cuda|cu|hip)(Ext|Module|ExtModule|Graph)*Launch|^(cuda|cu|hip)Mem(cpy|set)")
GRAPH_LAUNCH = re.compile(r"^(cuda|cu|hip)GraphLaunch")
WAIT = re.compile(r"(Device|Stream|Event|Ctx)Synchronize|^(cuda|cu|hip)Memcpy(?!.*Async)")
DATA = re.compile(r"DataLoader.*__next__|preprocess|_next_data|decode_video|video", re.IGNORECASE)
BLOCKED_COPY_NS = 100_000
"""A copying call that lasts longer waits: for pageable memory, or for the work before it."""

Interval = tuple[int, int]


def events_of(path: Path) -> list[dict[str, Any]]:
    """The complete events of a trace, with ``ts`` and ``end`` in ns."""
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8", "replace")
    document = json.loads(text, strict=False, parse_float=str, parse_int=str)
    raw_events = document["traceEvents"] if isinstance(document, dict) else document
    events = []
    for event in raw_events:
        if isinstance(event, dict) and event.get("ph") == "X" and "ts" in event:
            start = nanoseconds(event["ts"])
            end = start + max(nanoseconds(event.get("dur", "0")), 0)
            args = event.get("args")
            category = str(event.get("cat", "")).lower()
            category = {"memcpy": "gpu_memcpy", "memset": "gpu_memset"}.get(category, category)
            events.append(
                {
                    "ts": start,
                    "end": end,
                    "cat": category,
                    "name": str(event.get("name", "")),
                    "tid": (event.get("pid"), event.get("tid")),
                    "args": args if isinstance(args, dict) else {},
                }
            )
    return events


def nanoseconds(text: str) -> int:
    """Of decimal microseconds, to the nearest."""
    return int((Decimal(str(text)) * 1000).to_integral_value())


def correlation(event: dict[str, Any]) -> int | None:
    value = event["args"].get("correlation")
    return None if value is None else int(value)


def union(intervals: list[Interval]) -> list[Interval]:
    merged_intervals: list[Interval] = []
    for start, end in sorted(intervals):
        if merged_intervals and start <= merged_intervals[-1][1]:
            merged_intervals[-1] = (merged_intervals[-1][0], max(end, merged_intervals[-1][1]))
        else:
            merged_intervals.append((start, end))
    return merged_intervals


def length(intervals: list[Interval]) -> int:
    return sum(end - start for start, end in intervals)


def overlap(first: list[Interval], second: list[Interval]) -> list[Interval]:
    shared, at = [], 0
    for start, end in first:
        while at < len(second) and second[at][1] <= start:
            at += 1
        covered_end = at
        while covered_end < len(second) and second[covered_end][0] < end:
            shared.append((max(start, second[covered_end][0]), min(end, second[covered_end][1])))
            covered_end += 1
    return shared


def without(first: list[Interval], second: list[Interval]) -> list[Interval]:
    left = []
    for start, end in first:
        at = start
        for low, high in overlap([(start, end)], second):
            if low > at:
                left.append((at, low))
            at = max(at, high)
        if at < end:
            left.append((at, end))
    return left


def step_ranges(events: list[dict[str, Any]]) -> tuple[list[Interval], str]:
    """The outermost ranges of the first kind of mark that a trace has."""
    for mark in MARKS:
        pattern = re.compile(mark, re.IGNORECASE)
        ranges = sorted(
            (event["ts"], -event["end"])
            for event in events
            if event["cat"] in ANNOTATIONS and pattern.match(event["name"])
        )
        if ranges:
            selected_ranges: list[Interval] = []
            for start, end in ranges:
                if not selected_ranges or start >= selected_ranges[-1][1]:
                    selected_ranges.append((start, -end))
            return selected_ranges, mark.split("#")[0][:12]
    return [], "whole trace"


def count(path: Path) -> dict[str, Any]:
    """The counts of one trace; times in ns, medians over its steps."""
    events = events_of(path)
    work = [event for event in events if event["cat"] in GPU]
    calls = [event for event in events if event["cat"] in CALLS]
    by_id = {correlation(call): call for call in calls if correlation(call)}
    ids = [number for number in by_id if number is not None and number > 0]
    ranges, marks = step_ranges(events)
    is_unmarked = not ranges
    if is_unmarked and events:
        ranges = [(min(e["ts"] for e in events), max(e["end"] for e in events))]
    begins = [start for start, _ in ranges]

    def step_of(instant: int) -> int | None:
        at = bisect.bisect_right(begins, instant) - 1
        return at if at >= 0 and instant < max(ranges[at][1], ranges[at][0] + 1) else None

    rows: list[dict[str, Any]] = [
        {"kernels": 0, "copies": 0, "sets": 0, "launches": 0, "graphs": 0, "work": []}
        for _ in ranges
    ]
    carried_ns = 0
    before = [0] * len(ranges)  # ends of the work that was launched before each step
    for event in work:
        number = correlation(event)
        call = by_id.get(number)
        if call is None and ids and number and number < min(ids):
            carried_ns += 1  # launched before the trace began
            before = [max(end, event["end"]) for end in before]
            if not is_unmarked:
                continue
        launch_ns = call["ts"] if call else event["ts"]
        for later_step in range(bisect.bisect_right(begins, launch_ns), len(ranges)):
            before[later_step] = max(before[later_step], event["end"])
        at = 0 if is_unmarked else step_of(launch_ns)
        if at is not None:
            rows[at][GPU[event["cat"]]] += 1
            rows[at]["work"].append((event["ts"], event["end"]))
    for call in calls:
        if LAUNCH.match(call["name"]):
            at = 0 if is_unmarked else step_of(call["ts"])
            if at is not None:
                rows[at]["launches"] += 1
                rows[at]["graphs"] += bool(GRAPH_LAUNCH.match(call["name"]))
    work_ns = [length(union(row["work"])) for row in rows]
    ends = [max((end for _, end in row["work"]), default=0) for row in rows]
    runs_ahead = not is_unmarked and any(
        end > limits[1] for end, limits in zip(ends, ranges, strict=True)
    )
    spans = [
        (max(start, end_before), max(end, last, end_before)) if runs_ahead else (start, end)
        for (start, end), end_before, last in zip(ranges, before, ends, strict=True)
    ]
    busy = [
        length(without(union(row["work"]), [(0, end)])) if runs_ahead else work_length
        for row, end, work_length in zip(rows, before, work_ns, strict=True)
    ]
    return {
        "trace": path.name,
        "marks": marks,
        "steps": 0 if is_unmarked else len(ranges),
        "carried": carried_ns,
        "cpu_runs_ahead": runs_ahead,
        **{
            name: statistics.median(row[name] for row in rows) if rows else 0
            for name in ("kernels", "copies", "sets", "launches", "graphs")
        },
        "busy_ns": statistics.median(busy) if busy else 0,
        "own_ns": statistics.median(work_ns) if work_ns else 0,
        "range_ns": statistics.median(end - start for start, end in ranges) if ranges else 0,
        "all_busy_ns": length(union([(event["ts"], event["end"]) for event in work])),
        "idle_ns": idle(events, work, calls, spans),
    }


def idle(
    events: list[dict[str, Any]],
    work: list[dict[str, Any]],
    calls: list[dict[str, Any]],
    spans: list[Interval],
) -> dict[str, int]:
    """Divide the idle time of an average step: data loading, waiting calls, and the rest.
    ``spans``: begin and end of steps."""
    if not work or not spans:
        return {}
    gaps = without(union(spans), union([(event["ts"], event["end"]) for event in work]))
    causes = {
        "data": [e for e in events if e["cat"] not in GPU and DATA.search(e["name"])],
        "waiting": [
            call
            for call in calls
            if WAIT.search(call["name"])
            or ("Memcpy" in call["name"] and call["end"] - call["ts"] > BLOCKED_COPY_NS)
        ],
    }
    idle_ns = {}
    for cause, members in causes.items():
        busy_spans = union([(event["ts"], event["end"]) for event in members])
        idle_ns[cause] = length(overlap(gaps, busy_spans)) // len(spans)
        gaps = without(gaps, busy_spans)
    return idle_ns | {"other": length(gaps) // len(spans)}


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(json.dumps(count(Path(name))), flush=True)
