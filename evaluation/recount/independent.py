"""Counts of a Kineto trace, an Nsight export or a memory snapshot, by the standard library alone.

``python evaluation/recount/independent.py FILE...`` prints one JSON object per file. Nothing of
graphviz-dash is imported. Times are integer nanoseconds.
"""

from __future__ import annotations

import gzip
import json
import pickle
import re
import sqlite3
import sys
from collections import Counter, defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

WORK = {
    "kernel": "kernels",
    "gpu_memcpy": "copies",
    "memcpy": "copies",
    "gpu_memset": "sets",
    "memset": "sets",
}
CALLS = ("cuda_runtime", "cuda_driver", "runtime", "xpu_runtime", "xpu_driver")
"""Categories of API calls on the CPU; ``privateuse1_*`` too."""
LAUNCH = re.compile(
    r"(cuda|cu|hip)\w*Launch|(cuda|cu|hip)Mem(cpy|set)|ur\w*KernelLaunch|urEnqueue(USM|MemBuffer)"
)
NO_LAUNCH = re.compile(
    r"LaunchHostFunc|Graph\w*(Add|Create|Set|Get|Exec|Node|Instantiate)|Memcpy\w*(Attr|Node)"
)
GRAPH_LAUNCH = re.compile(r"(cuda|cu|hip)GraphLaunch")
STEP = re.compile(r"ProfilerStep#\d+")


def convert_to_ns(microseconds: Any) -> int:
    """Convert microseconds to the nearest nanosecond."""
    return round(Decimal(str(microseconds)) * 1000)


def union(intervals: list[tuple[int, int]]) -> int:
    """Length of the union of ``intervals``."""
    total, reach = 0, None
    for start, end in sorted(intervals):
        if reach is None or start > reach:
            total += end - start
            reach = end
        elif end > reach:
            total += end - reach
            reach = end
    return total


def summarise(
    work: list[tuple[str, str, int, int]], calls: list[str], steps: int
) -> dict[str, Any]:
    """Counts of all devices and of each; ``work``: device, kind, start, end."""
    kinds = Counter(kind for _, kind, _, _ in work)
    lanes: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for device, _, start, end in work:
        lanes[device].append((start, end))
    launches = [name for name in calls if LAUNCH.match(name) and not NO_LAUNCH.search(name)]
    return {
        "kernels": kinds["kernels"],
        "copies": kinds["copies"],
        "sets": kinds["sets"],
        "launches": len(launches),
        "graph_launches": sum(bool(GRAPH_LAUNCH.match(name)) for name in launches),
        "busy_ns": {device: union(spans) for device, spans in sorted(lanes.items())},
        "steps": steps,
    }


def count_kineto(path: Path) -> dict[str, Any]:
    """Count complete events of a trace of torch.profiler."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8", "replace")
    document = json.loads(text, strict=False, parse_float=Decimal)
    events = document["traceEvents"] if isinstance(document, dict) else document
    work, calls, steps = [], [], set()
    for event in events:
        if not isinstance(event, dict) or event.get("ph") != "X" or "ts" not in event:
            continue
        category, name = str(event.get("cat", "")).lower(), str(event.get("name", ""))
        if category in WORK:
            start = convert_to_ns(event["ts"])
            end = start + max(convert_to_ns(event.get("dur") or 0), 0)
            arguments = event.get("args") or {}
            work.append(
                (str(arguments.get("device", event.get("pid"))), WORK[category], start, end)
            )
        elif category in CALLS or category.startswith("privateuse1_"):
            calls.append(name)
        elif STEP.fullmatch(name) and not category.startswith("gpu"):
            steps.add(name)
    return {"kind": "Kineto", **summarise(work, calls, len(steps))}


def count_nsight(path: Path) -> dict[str, Any]:
    """Count rows of a report of Nsight Systems."""
    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    work: list[tuple[str, str, int, int]] = []
    for table, kind in (("KERNEL", "kernels"), ("MEMCPY", "copies"), ("MEMSET", "sets")):
        name = f"CUPTI_ACTIVITY_KIND_{table}"
        if name in tables:
            rows = connection.execute(f"SELECT deviceId, start, end FROM {name}")
            work += [(str(device), kind, start, end) for device, start, end in rows]
    calls: list[str] = []
    if "CUPTI_ACTIVITY_KIND_RUNTIME" in tables:
        rows = connection.execute(
            "SELECT value FROM CUPTI_ACTIVITY_KIND_RUNTIME JOIN StringIds ON id = nameId"
        )
        calls = [re.sub(r"_v\d+$", "", value) for (value,) in rows]
    return {"kind": "Nsight", **summarise(work, calls, 0)}


class _PlainUnpickler(pickle.Unpickler):
    """Reads builtin containers only."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name}")


def count_snapshot(path: Path) -> dict[str, Any]:
    """Sum the segments of a snapshot of torch.cuda.memory, and its highest allocation."""
    with path.open("rb") as file:
        snapshot = _PlainUnpickler(file).load()
    segments = snapshot["segments"]
    now = sum(segment["allocated_size"] for segment in segments)
    histories = [history for history in snapshot.get("device_traces", ()) if history]
    peak = None
    if len(histories) == 1:
        peak = level = now
        for event in reversed(histories[0]):
            level -= event["size"] * (event["action"] == "alloc")
            level += event["size"] * (event["action"] == "free_completed")
            peak = max(peak, level)
    return {
        "kind": "snapshot",
        "allocated": now,
        "reserved": sum(segment["total_size"] for segment in segments),
        "peak": peak,
    }


def count(path: Path) -> dict[str, Any]:
    """Count ``path`` by its first bytes."""
    head = path.read_bytes()[:16]
    if head.startswith(b"SQLite"):
        return count_nsight(path)
    return count_snapshot(path) if head[:1] == b"\x80" else count_kineto(path)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(json.dumps({"file": argument, **count(Path(argument))}), flush=True)
