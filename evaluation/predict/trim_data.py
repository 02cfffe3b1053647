"""Makes a recording for predictions small enough to be kept: its traces lose what nothing reads.

``python -m evaluation.predict.trim_data FROM TO [--steps N]`` copies the experiments in FROM. Of
each eager trace it keeps the first N marked steps, with calls, GPU work and ranges; the arrows,
Python frames and counters go, the operators in which no stream is made to wait, and the arguments
that no table has. Times stay.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import shutil
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Final

import msgspec

from graphviz_dash.bundle import parts
from graphviz_dash.bundle.write import BundleWriter
from graphviz_dash.model.marks import STEP
from graphviz_dash.model.run import FileRole, Manifest
from graphviz_dash.model.timings import CleanTimings

KEPT: Final = {
    "kernel": (
        "device", "stream", "correlation", "grid", "block", "shared memory",
        "registers per thread",
    ),
    "gpu_memcpy": ("device", "stream", "correlation", "bytes"),
    "gpu_memset": ("device", "stream", "correlation", "bytes"),
    "cuda_runtime": ("correlation",),
    "cuda_driver": ("correlation",),
    "cpu_op": (),
    "user_annotation": (),
}  # fmt: skip
"""Categories of events that stay, and their arguments."""


CALLS: Final = re.compile(
    r"Launch|Mem(cpy|set)|Malloc|Free|HostAlloc|Synchronize|Event(Record\w*)?$"
)
"""Calls that stay: what launches, copies, allocates, waits or lets a stream wait."""


def trim(trace: dict[str, Any], max_steps: int) -> dict[str, Any]:
    """The trace of the first ``max_steps`` marked steps."""
    events = trace["traceEvents"]
    marks = sorted(
        (event["ts"], event["ts"] + event["dur"])
        for event in events
        if event.get("cat") == "user_annotation" and event["name"].startswith(STEP)
    )[:max_steps]
    begin, end = marks[0][0], marks[-1][1]
    calls = {
        event["args"]["correlation"]
        for event in events
        if event.get("cat") in ("cuda_runtime", "cuda_driver") and begin <= event["ts"] < end
    }
    waits = [
        (event["tid"], event["ts"])
        for event in events
        if event.get("cat") == "cuda_runtime" and "StreamWaitEvent" in event["name"]
    ]

    def waited_in(op: dict[str, Any]) -> bool:
        stop = op["ts"] + op["dur"]
        return any(tid == op["tid"] and op["ts"] <= at < stop for tid, at in waits)

    kept_events = []
    for event in events:
        category = event.get("cat")
        if category not in KEPT or event.get("ph") != "X":
            continue
        if category in ("cuda_runtime", "cuda_driver") and not CALLS.search(event["name"]):
            continue
        if category == "cpu_op" and not (waits and waited_in(event)):
            continue
        arguments = event.get("args", {})
        on_gpu = category in ("kernel", "gpu_memcpy", "gpu_memset")
        inside = arguments.get("correlation") in calls if on_gpu else begin <= event["ts"] < end
        if inside:
            kept_fields = {key: arguments[key] for key in KEPT[category] if key in arguments}
            kept_events.append({**event, "args": kept_fields})
    return {**trace, "traceEvents": kept_events}


def copy_run(source: Path, target: Path, max_steps: int) -> None:
    manifest = msgspec.json.decode((source / "manifest.json").read_bytes(), type=Manifest)
    with BundleWriter(target) as writer:
        for entry in manifest.files:
            if entry.role is FileRole.CLEAN:
                timings = msgspec.json.decode((source / entry.path).read_bytes(), type=CleanTimings)
                writer.add(parts.CLEAN, timings)
            if entry.role is FileRole.REPLAY_TRACE:
                with gzip.open(source / entry.path) as file:
                    trace = trim(json.load(file), max_steps)
                text = json.dumps(trace, separators=(",", ":")).encode()
                packed_path = target.parent / f"{target.name}.json.gz"
                packed_path.write_bytes(gzip.compress(text, 9, mtime=0))
                writer.add_trace(entry.role, packed_path)
        info = msgspec.structs.replace(
            manifest.workload, traced_iterations=min(max_steps, manifest.workload.traced_iterations)
        )
        writer.commit(msgspec.structs.replace(manifest, workload=info))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--steps", type=int, default=3)
    options = parser.parse_args()
    shutil.rmtree(options.target, ignore_errors=True)
    with ProcessPoolExecutor() as pool:
        waiting = []
        for manifest in sorted(options.source.glob("*/*/manifest.json")):
            location = manifest.parent.relative_to(options.source)
            (options.target / location.parent).mkdir(parents=True, exist_ok=True)
            target = options.target / location
            waiting.append(pool.submit(copy_run, manifest.parent, target, options.steps))
        for one in waiting:
            one.result()


if __name__ == "__main__":
    main()
