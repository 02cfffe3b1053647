from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from graphviz_dash.bundle.launch import is_launch
from graphviz_dash.ingest import cache
from graphviz_dash.ingest.limits import DEFAULT_LIMITS
from graphviz_dash.ingest.load import find_experiments, load_experiment

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
TRACES = sorted(SAMPLES.glob("*/*/traces/*.json.gz"))
KEPT = {
    "gpu": ("kernel", "gpu_memcpy", "gpu_memset"),
    "runtime": ("cuda_runtime", "cuda_driver"),
    "ops": ("cpu_op",),
    "annotations": ("user_annotation",),
    "python": ("python_function",),
}
"""The categories of events that each table holds."""


def exact_ns(event: dict[str, Any], key: str) -> int:
    """A time of an event, written in µs with at most three digits behind the point."""
    whole, _, part = str(event[key]).partition(".")
    assert len(part) <= 3
    return int(whole + part.ljust(3, "0"))


@pytest.mark.parametrize("path", TRACES, ids=lambda path: str(path.relative_to(SAMPLES).parent))
def test_tables_hold_every_event_exactly(path: Path) -> None:
    with gzip.open(path, "rb") as file:
        document = json.load(file, parse_float=str)
    events = document["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    table_of = {category: table for table, categories in KEPT.items() for category in categories}
    # Which other tests of this process have read too.
    trace = cache.read_trace(path, DEFAULT_LIMITS)
    assert trace.info.events == len(events)
    origin = trace.info.origin_ns - document["baseTimeNanoseconds"]
    expected: dict[str, list[tuple[int, int, str]]] = {table: [] for table in KEPT}
    for event in slices:
        if event["cat"] in table_of:
            times = exact_ns(event, "ts") - origin, exact_ns(event, "dur")
            expected[table_of[event["cat"]]].append((*times, event["name"]))
    held = 0
    for table, written in expected.items():
        frame: pl.DataFrame = getattr(trace, table)
        # Both are nearly in the order of their times: to sort them takes less than to count them.
        assert sorted(frame.select("ts", "dur", "name").rows()) == sorted(written)
        assert frame["ts"].is_sorted()
        held += frame.height
    assert held + sum(trace.info.skipped.values()) == len(events)
    wanted = [event for event in slices if event["cat"] == "kernel"]
    kernels = trace.gpu.filter(pl.col("kind") == "kernel")
    for column, argument in (
        ("correlation", "correlation"),
        ("shared", "shared memory"),
        ("registers", "registers per thread"),
        ("stream", "stream"),
    ):
        assert kernels[column].sum() == sum(event["args"][argument] for event in wanted)
    assert kernels["grid_x"].sum() == sum(event["args"]["grid"][0] for event in wanted)
    assert kernels["block_y"].sum() == sum(event["args"]["block"][1] for event in wanted)


def test_all_sample_experiments_are_found_and_load() -> None:
    found = find_experiments(SAMPLES)
    assert [path.name for path in found] == sorted(
        path.name for path in SAMPLES.iterdir() if path.is_dir() and not is_launch(path)
    )
    for path in found:
        experiment = load_experiment(path)
        assert experiment.runs
        for run in experiment.runs:
            if run.replay_trace is None:
                # An examination by the doctor has no traced pass, a program may end before it.
                assert run.manifest.status == "failed" or run.doctor or run.recording
            else:
                names = run.replay_trace.annotations["name"].to_list()
                steps = [name for name in names if name.startswith("graphviz_dash.step#")]
                traced = run.manifest.workload.traced_iterations
                # The end of a program may cut its last step.
                assert len(steps) == traced or (run.recording and len(steps) == traced + 1)
