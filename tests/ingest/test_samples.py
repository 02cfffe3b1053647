"""The recorded samples, read by us and, event by event, by the standard library."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from decimal import Decimal
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


def exact_ns(event: dict[str, Any], key: str) -> int:
    return int(Decimal(event[key]) * 1000)


@pytest.mark.parametrize("path", TRACES, ids=lambda path: str(path.relative_to(SAMPLES).parent))
def test_tables_hold_every_event_exactly(path: Path) -> None:
    with gzip.open(path, "rb") as file:
        document = json.load(file, parse_float=str)
    events = document["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    kept = {
        "gpu": ("kernel", "gpu_memcpy", "gpu_memset"),
        "runtime": ("cuda_runtime", "cuda_driver"),
        "ops": ("cpu_op",),
        "annotations": ("user_annotation",),
        "python": ("python_function",),
    }
    # Which other tests of this process have read too.
    trace = cache.read_trace(path, DEFAULT_LIMITS)
    assert trace.info.events == len(events)
    origin = trace.info.origin_ns - document["baseTimeNanoseconds"]
    held = 0
    for table, categories in kept.items():
        frame: pl.DataFrame = getattr(trace, table)
        expected = Counter(
            (event["name"], exact_ns(event, "ts") - origin, exact_ns(event, "dur"))
            for event in slices
            if event["cat"] in categories
        )
        # As dictionaries: two counters are compared count by count, in Python.
        assert dict(Counter(frame.select("name", "ts", "dur").rows())) == dict(expected)
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
                assert len(steps) == run.manifest.workload.traced_iterations
