from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from collectors.passes.capture_events import reduce_capture_trace
from graphviz_dash.analysis.attribution.attribution import attribute_graphs
from graphviz_dash.analysis.attribution.graph_identity import list_graph_identities
from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.run import Run
from graphviz_dash.model.trace import Trace
from tests.builders import AUTOGRAD_THREAD, TraceBuilder
from tests.samples import SAMPLES

CAPTURES = sorted(
    path.parents[1].relative_to(SAMPLES).as_posix()
    for path in SAMPLES.glob("*/*/traces/capture.json.gz")
)


def reduce(text: str) -> list[dict[str, Any]]:
    return list(json.loads(reduce_capture_trace(text.encode()))["traceEvents"])


def attribute(run: Run, captures: tuple[Trace, ...]) -> object:
    """Origins of all nodes, with the calls numbered from 0 by first use; inputs of each graph."""
    numbers: dict[int | None, int] = {}
    origins = [
        (
            attribution.graph,
            attribution.capture_launches,
            attribution.unmatched_launches,
            msgspec.structs.replace(origin, call=numbers.setdefault(origin.call, len(numbers))),
        )
        for attribution in attribute_graphs(run.graphs, captures).values()
        for origin in attribution.origins
    ]
    return origins, list_graph_identities(run.graphs, run.recording, captures)


@pytest.mark.parametrize("name", CAPTURES)
def test_nodes_of_samples_keep_their_origins(name: str, tmp_path: Path) -> None:
    run = load_run(SAMPLES / name)
    reduced = []
    for number, path in enumerate(read_bundle(SAMPLES / name).capture_traces):
        text = gzip.decompress(path.read_bytes())
        file = tmp_path / f"{number}.json"
        file.write_bytes(reduce_capture_trace(text))
        reduced.append(read_trace(file))
    assert attribute(run, tuple(reduced)) == attribute(run, run.capture_traces)


def capture(trace: TraceBuilder, *, begin: int) -> None:
    """A captured launch in an operator, with frames of torch and of the program around it."""
    trace.frame("train.py(7): step", begin - 50, 400)
    trace.frame("torch/_ops.py(1): __call__", begin + 5, 90)
    trace.annotation("graphviz_dash.capture#graph-0", begin, 100)
    trace.runtime("cudaStreamBeginCapture_v10000", begin + 1, 2)
    op = trace.op("aten::relu", begin + 10, 20)
    trace.runtime("cudaLaunchKernel", begin + 12, 5, external_id=op)
    trace.runtime("cudaStreamEndCapture_v10000", begin + 90, 2)


def eager_step(trace: TraceBuilder, *, begin: int) -> None:
    trace.frame("train.py(20): evaluate", begin, 60)
    trace.annotation("graphviz_dash.source:train.py:21", begin + 5, 40)
    op = trace.op("aten::mul", begin + 10, 20)
    correlation = trace.runtime("cudaLaunchKernel", begin + 12, 5, external_id=op)
    trace.kernel("multiply", begin + 20, 10, correlation=correlation)


def test_steps_outside_captures_add_nothing() -> None:
    alone, between = TraceBuilder(), TraceBuilder()
    capture(alone, begin=1_000)
    capture(between, begin=1_000)
    for number in range(30):
        eager_step(between, begin=2_000 + 100 * number)
    assert reduce(between.text()) == reduce(alone.text())
    names = {event["name"] for event in reduce(alone.text())}
    assert {"train.py(7): step", "aten::relu", "cudaLaunchKernel"} <= names
    assert "torch/_ops.py(1): __call__" not in names


def test_the_forward_operator_of_another_capture_stays_with_its_line() -> None:
    trace = TraceBuilder()
    trace.frame("model.py(3): forward", 100, 90)
    trace.annotation("graphviz_dash.source:model.py:5", 105, 60)
    trace.op("aten::linear", 110, 50, sequence=5)
    trace.annotation("graphviz_dash.capture#graph-0", 1_000, 500)
    trace.frame("train.py(9): step", 900, 700)
    trace.frame("torch/_tensor.py(600): backward", 950, 600)
    trace.op("LinearBackward0", 1_100, 50, tid=AUTOGRAD_THREAD, sequence=5, forward_thread=1)
    trace.runtime("cudaLaunchKernel", 1_110, 9, tid=AUTOGRAD_THREAD)
    names = {event["name"] for event in reduce(trace.text())}
    assert {
        "aten::linear",
        "graphviz_dash.source:model.py:5",
        "model.py(3): forward",
        "train.py(9): step",
        "torch/_tensor.py(600): backward",
    } <= names


def test_gpu_work_of_a_captured_call_shows_that_it_ran() -> None:
    trace = TraceBuilder()
    capture(trace, begin=1_000)
    call = trace.runtime("cudaMemsetAsync", 1_050, 5)
    trace.memset("Memset (Device)", 1_060, 5, bytes=4, correlation=call)
    assert "Memset (Device)" in {event["name"] for event in reduce(trace.text())}


def test_kept_events_and_fields_keep_their_text() -> None:
    trace = TraceBuilder()
    capture(trace, begin=1_000)
    full, reduced = (
        json.loads(trace.text()),
        json.loads(reduce_capture_trace(trace.text().encode())),
    )
    assert {**reduced, "traceEvents": full["traceEvents"]} == full
    events = [event for event in full["traceEvents"] if event["cat"] != "ac2g"]
    assert reduced["traceEvents"] == [
        event for event in events if not event["name"].startswith("torch/")
    ]


@pytest.mark.parametrize("text", ['{"traceEvents": [{"ph"', '{"events": []}', "[]"])
def test_a_trace_that_cannot_be_read_stays_as_it_is(text: str) -> None:
    assert reduce_capture_trace(text.encode()) == text.encode()
