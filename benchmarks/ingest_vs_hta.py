"""How long loading a Kineto trace takes, beside HolisticTraceAnalysis, in the same run.

    python benchmarks/ingest_vs_hta.py --peer-python /tmp/hta-venv/bin/python [--trace PATH]

Each load runs in a fresh process, ours and the peer's in turn, and is timed inside that process
from after the imports to the finished tables; the import times are printed beside. The peer is
loaded as its own documentation does (``Trace.parse_traces``), with its memory profiling off, which
is in its favour. Without ``--trace`` a trace of 25 MB is made: copies of a sample trace of this
repository, one behind the other in time, with ids of their own.

The peer is not a dependency: install it in an environment of its own,
``python -m venv /tmp/hta-venv && /tmp/hta-venv/bin/pip install HolisticTraceAnalysis``.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = ROOT / "sample_traces/mlp-train/eager/traces/replay.json.gz"
MEGABYTE = 1_000_000
GOAL = 5.0
IDS = ("correlation", "External id", "Ev Idx", "Sequence number")

OURS = """
import sys, time
start = time.perf_counter()
from pathlib import Path
from graphviz_dash.ingest.kineto import read_trace
imported = time.perf_counter()
trace = read_trace(Path(sys.argv[1]))
done = time.perf_counter()
print(imported - start, done - imported, trace.info.events, trace.gpu.height)
"""

REOPENED = """
import sys, tempfile, time
start = time.perf_counter()
from pathlib import Path
from graphviz_dash.ingest.cache import TraceCache, open_trace
imported = time.perf_counter()
with tempfile.TemporaryDirectory() as folder:
    cache = TraceCache(Path(folder))
    open_trace(Path(sys.argv[1]), cache=cache)
    opened = time.perf_counter()
    trace = open_trace(Path(sys.argv[1]), cache=cache)
    done = time.perf_counter()
    assert cache.entries()
print(imported - start, done - opened, trace.info.events, trace.gpu.height)
"""

PEER = """
import logging, sys, time
start = time.perf_counter()
from hta.common.trace import Trace
logging.disable(logging.CRITICAL)
imported = time.perf_counter()
trace = Trace(trace_files={0: sys.argv[1]}, trace_dir="/")
trace.parse_traces(use_multiprocessing=False, use_memory_profiling=False)
done = time.perf_counter()
frame = trace.traces[0]
print(imported - start, done - imported, len(frame), int((frame["stream"] >= 0).sum()))
"""


def main() -> int:
    """Prints both times and their ratio; exit code 1 when the goal is missed."""
    options = _options()
    with tempfile.TemporaryDirectory() as scratch:
        trace = options.trace or made_trace(Path(scratch), int(options.megabytes * MEGABYTE))
        size = json_bytes(trace)
        print(f"{platform.node() and platform.machine()}, {os.cpu_count()} cores, ", end="")
        print(f"Python {platform.python_version()}, {datetime.now(UTC):%Y-%m-%d}")
        print(f"trace: {trace.name}, {size / MEGABYTE:.1f} MB of JSON")
        ours, again, peers = [], [], []
        for _ in range(options.repeats):
            ours.append(_timed(sys.executable, OURS, trace))
            again.append(_timed(sys.executable, REOPENED, trace))
            if options.peer_python:
                peers.append(_timed(options.peer_python, PEER, trace))
        mine = _told("graphviz-dash read_trace", ours, size)
        reopened = _told("graphviz-dash, from its cache", again, size)
        if not peers:
            print("no --peer-python given: nothing to compare with")
            return 0
        theirs = _told("HolisticTraceAnalysis", peers, size)
        ratio = theirs / mine
        print(f"ratio: {ratio:.1f}x (goal: at least {GOAL:.0f}x)", end="")
        print(f", from the cache {theirs / reopened:.0f}x")
        return 0 if ratio >= GOAL else 1


def made_trace(folder: Path, size: int) -> Path:
    """Whole copies of the sample until there are ``size`` bytes of JSON, gzip-compressed; the same
    whenever it is made."""
    with gzip.open(SAMPLE, "rb") as file:
        document = json.load(file)
    events = document.pop("traceEvents")
    slices = [event for event in events if "ts" in event]
    first = min(event["ts"] for event in slices)
    span = max(event["ts"] + event.get("dur", 0) for event in slices) - first + 1000
    step = 1 + max(
        value
        for event in events
        for name, value in event.get("args", {}).items()
        if name in IDS and isinstance(value, int)
    )
    written = [f'"{key}": {json.dumps(value)}' for key, value in document.items()]
    text = ["{\n  " + ",\n  ".join(written) + ',\n  "traceEvents": [\n  ']
    total = 0
    copy = 0
    while total < size:
        for event in events:
            # Metadata once: threads keep their names.
            if copy and event.get("ph") == "M":
                continue
            line = _laid_out(_shifted(event, span * copy, step * copy))
            text.append(("" if total == 0 else ",\n  ") + line)
            total += len(line) + 4
        copy += 1
    text.append("\n  ]\n}\n")
    path = folder / "made.json.gz"
    path.write_bytes(gzip.compress("".join(text).encode(), 6, mtime=0))
    return path


def _shifted(event: dict[str, Any], time: float, ids: int) -> dict[str, Any]:
    moved = dict(event)
    if "ts" in moved:
        moved["ts"] = round(moved["ts"] + time, 3)
    if "id" in moved:
        moved["id"] += ids
    if isinstance(moved.get("args"), dict):
        moved["args"] = {
            name: value + ids if name in IDS and isinstance(value, int) else value
            for name, value in moved["args"].items()
        }
    return moved


def _laid_out(event: dict[str, Any]) -> str:
    """One event on the lines on which Kineto writes it."""
    args = event.pop("args", None)
    head = json.dumps(event)[1:-1]
    if args is None:
        return f"{{\n    {head}\n  }}"
    return f'{{\n    {head},\n    "args": {{\n      {json.dumps(args)[1:-1]}\n    }}\n  }}'


def json_bytes(path: Path) -> int:
    """Size of the JSON in ``path``, decompressed."""
    if path.suffix != ".gz":
        return path.stat().st_size
    with gzip.open(path, "rb") as file:
        return sum(len(chunk) for chunk in iter(lambda: file.read(1 << 20), b""))


def _timed(python: str, code: str, trace: Path) -> tuple[float, float, int, int]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    if python != sys.executable:
        environment.pop("PYTHONPATH")
    answer = subprocess.run(
        [python, "-c", code, str(trace)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    ).stdout.split()
    return float(answer[0]), float(answer[1]), int(answer[2]), int(answer[3])


def _told(name: str, times: list[tuple[float, float, int, int]], size: int) -> float:
    loads = sorted(load for _, load, _, _ in times)
    median = statistics.median(loads)
    imports = statistics.median(spent for spent, _, _, _ in times)
    _, _, rows, on_gpu = times[0]
    print(
        f"{name}: load {median * 1000:,.0f} ms (median of {len(loads)}, "
        f"{loads[0] * 1000:,.0f} to {loads[-1] * 1000:,.0f}), "
        f"{size / MEGABYTE / median:,.0f} MB/s, import {imports * 1000:,.0f} ms; "
        f"{rows:,} events or rows, {on_gpu:,} on the GPU"
    )
    return median


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--trace", type=Path, help="a Kineto trace, .json or .json.gz")
    parser.add_argument("--megabytes", type=float, default=25, help="size of the made trace")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--peer-python", help="interpreter that has HolisticTraceAnalysis")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
