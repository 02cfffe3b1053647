"""Traces of equal steps with a known bound, and the damage that profilers and tools do to them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.model.trace import Trace

KERNEL_NS = 20_000
GAP_NS = 90_000
START = 1_700_000_000_000_000

Event = dict[str, Any]


def make_events(
    steps: int = 6,
    kernels: int = 10,
    *,
    pid: int | str = 100,
    device: int = 0,
    first_id: int = 1000,
) -> list[Event]:
    """Steps of ``kernels`` equal kernels, each launched in time, on one stream.

    A step is as long as its kernels at GAP_NS from each other, so its speedup is below
    GAP_NS / KERNEL_NS.
    """
    events: list[Event] = []
    number = first_id
    length = kernels * GAP_NS // 1000
    for step in range(steps):
        begin = START + step * (length + 10)
        events.append(make_slice("user_annotation", f"ProfilerStep#{step}", begin, length, pid))
        for index in range(kernels):
            at = begin + 20 + index * GAP_NS // 1000
            events.append(make_slice("cpu_op", f"aten::op{index}", at - 2, 12, pid))
            launch = {"correlation": number}
            events.append(make_slice("cuda_runtime", "cudaLaunchKernel", at, 5, pid, **launch))
            work = {"device": device, "stream": 7, "correlation": number}
            shape = {"grid": [4, 1, 1], "block": [128, 1, 1]}
            name = f"kernel_{index}"
            duration = KERNEL_NS // 1000
            events.append(make_slice("kernel", name, at + 8, duration, device, 7, **work, **shape))
            number += 1
        wait = begin + length - 5
        events.append(make_slice("cuda_runtime", "cudaDeviceSynchronize", wait, 4, pid))
    return events


def make_slice(
    category: str, name: str, ts: int, dur: int, pid: int | str, tid: int = 100, **args: object
) -> Event:
    """Make one complete event; times in microseconds."""
    return {
        "ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid,
        "ts": ts, "dur": dur, "args": args,
    }  # fmt: skip


def remove(events: Iterable[Event], is_lost: Callable[[Event], bool]) -> list[Event]:
    return [event for event in events if not is_lost(event)]


def write_events(events: list[Event], path: Path, cut: float = 1.0) -> Path:
    """Write a trace; with ``cut`` only this share of its bytes."""
    text = json.dumps({"schemaVersion": 1, "traceEvents": events})
    path.write_text(text[: round(len(text) * cut)])
    return path


def read_events(events: list[Event], path: Path, cut: float = 1.0) -> Trace:
    return read_trace(write_events(events, path, cut))
