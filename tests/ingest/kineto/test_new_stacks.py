"""Traces as torch 2.12 and later writes them, rebuilt from reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphviz_dash.analysis.prediction.predict import Prediction, predict
from graphviz_dash.analysis.trace.integrity import assess_integrity
from graphviz_dash.analysis.trace.steps import find_steps
from graphviz_dash.model.trace import Trace
from tests.analysis.predictions import CALIBRATION
from tests.analysis.trace.integrity_traces import (
    START,
    Event,
    make_events,
    make_slice,
    read_events,
    remove,
)


def get_problems(trace: Trace) -> dict[str, str]:
    return {problem.code: problem.text for problem in trace.info.problems}


def make_replay(start: int, *, doubled: bool, size: int = 512) -> list[Event]:
    """A graph launch with a copy and a kernel, with packed node ids and fields of torch 2.13."""
    call = make_slice("cuda_runtime", "cudaGraphLaunch", start, 9, 100, correlation=start)
    ids = {"correlation": start, "device": 0, "stream": 7, "graph id": 4, "channel": 3}
    shape = {"grid": [4, 1, 1], "block": [128, 1, 1], "priority": 0, "channel_type": 1}
    copies = [
        make_slice(
            "gpu_memcpy", "Memcpy DtoD (Device -> Device)", at, 3, 0, 7,
            **ids, **{"graph node id": (4 << 32) | 1}, bytes=size,
        )
        for at in ([start + 20, start + 24] if doubled else [start + 20])
    ]  # fmt: skip
    kernel = make_slice(
        "kernel", "gemm", start + 30, 9, 0, 7,
        **ids, **shape, **{"graph node id": (4 << 32) | 2, "module_fqn": "layers.0.mlp"},
    )  # fmt: skip
    return [call, *copies, kernel]


def test_fields_of_newer_stacks_leave_graphs_and_eager_work_apart(tmp_path: Path) -> None:
    events = make_events(2)
    for event in events:
        if event["cat"] == "kernel":
            event["args"] |= {"graph id": 0, "graph node id": 0, "channel": 1, "channel_type": 1}
    events += make_replay(START + 5_000, doubled=False)
    trace = read_events(events, tmp_path / "t.json")
    graphed = trace.gpu.filter(trace.gpu["graph_id"].is_not_null())
    assert graphed["graph_node_id"].to_list() == [1, 2]
    assert graphed.height == 2


def make_replays(*, doubled: bool) -> list[Event]:
    return [
        event
        for index in range(3)
        for event in make_replay(START + 100 * index, doubled=doubled, size=512 << index)
    ]


def remove_node_ids(events: list[Event]) -> list[Event]:
    for event in events:
        event["args"].pop("graph node id", None)
    return events


def test_both_rows_of_a_captured_copy_count_once(tmp_path: Path) -> None:
    trace = read_events(make_replays(doubled=True), tmp_path / "t.json")
    assert "3 captured copies had two rows" in get_problems(trace)["split-copies"]
    copies = trace.gpu.filter(trace.gpu["kind"] == "memcpy")
    assert copies["bytes"].to_list() == [512, 1024, 2048]
    assert copies["dur"].to_list() == [7_000] * 3
    assert {step.copies for step in find_steps(trace)} == {1}
    once = read_events(make_replays(doubled=False), tmp_path / "once.json")
    assert "split-copies" not in get_problems(once)
    assert once.gpu.height == trace.gpu.height


@pytest.mark.parametrize("doubled", [True, False])
def test_doubled_copies_without_node_ids_are_reported(tmp_path: Path, doubled: bool) -> None:
    events = remove_node_ids(make_replays(doubled=doubled))
    problems = get_problems(read_events(events, tmp_path / "t.json"))
    assert ("paired-copies" in problems) is doubled
    assert "split-copies" not in problems


@pytest.mark.parametrize("has_ids", [True, False])
def test_equal_rows_of_captured_copies_count_once(tmp_path: Path, has_ids: bool) -> None:
    """Twelve copies in 24 rows with the same start, duration, launch, stream and size."""
    events = []
    for index in range(12):
        call, copy, kernel = make_replay(START + 100 * index, doubled=False)
        events += [call, copy, {**copy, "args": dict(copy["args"])}, kernel]
    if not has_ids:
        remove_node_ids(events)
    trace = read_events(events, tmp_path / "t.json")
    assert trace.gpu.filter(trace.gpu["kind"] == "memcpy").height == 12
    assert trace.gpu.filter(trace.gpu["kind"] == "kernel").height == 12
    assert get_problems(trace)["repeated-events"].startswith("12 slices occur several times")


def test_equal_kernels_of_two_branches_stay(tmp_path: Path) -> None:
    """Older traces show all branches of a graph on one lane, without node ids."""
    events = remove_node_ids(make_replays(doubled=False))
    kernels = [event for event in events if event["cat"] == "kernel"]
    events += [{**event, "args": dict(event["args"])} for event in kernels]
    trace = read_events(events, tmp_path / "t.json")
    assert trace.gpu.filter(trace.gpu["kind"] == "kernel").height == 2 * len(kernels)


def test_two_equal_copies_of_two_nodes_stay(tmp_path: Path) -> None:
    events = make_replays(doubled=True)
    for number, event in enumerate(event for event in events if event["cat"] == "gpu_memcpy"):
        event["args"]["graph node id"] = (4 << 32) | (10 + number % 2)
    trace = read_events(events, tmp_path / "t.json")
    assert trace.gpu.filter(trace.gpu["kind"] == "memcpy").height == 6
    assert "split-copies" not in get_problems(trace)


@pytest.mark.parametrize("second_start", [20, 60_000])
def test_two_copies_apart_are_no_doubled_copies(tmp_path: Path, second_start: int) -> None:
    """Copies before and after the kernel, or after 60 ms, as in a graph of two equal copies."""
    events = remove_node_ids(make_replay(START, doubled=True))
    copy = [event for event in events if event["cat"] == "gpu_memcpy"][1]
    copy["ts"] += second_start
    assert "paired-copies" not in get_problems(read_events(events, tmp_path / "t.json"))


@pytest.mark.parametrize(("size", "is_possible"), [(3_000 * 20_000, True), (1 << 29, False)])
def test_copies_with_the_size_of_another_graph_are_reported(
    tmp_path: Path, size: int, is_possible: bool
) -> None:
    """As CUPTI 13.0: 512 MiB in 3 µs."""
    trace = read_events(make_replay(START, doubled=False, size=size), tmp_path / "t.json")
    assert ("impossible-copy-size" not in get_problems(trace)) is is_possible


def test_eager_copies_in_pairs_are_no_doubled_copies(tmp_path: Path) -> None:
    events = make_replay(START, doubled=True)
    events[0]["name"] = "cudaLaunchKernel"
    assert "paired-copies" not in get_problems(read_events(events, tmp_path / "t.json"))


@pytest.mark.parametrize("lost", [1, 10, 25])
def test_the_first_kernels_of_a_session_are_lost_with_their_steps(
    tmp_path: Path, lost: int
) -> None:
    """As CUPTI 12.9 after idle time (pytorch issue 192021)."""
    events = remove(
        make_events(),
        lambda e: e["cat"] == "kernel" and e["args"]["correlation"] < 1000 + lost,
    )
    trace = read_events(events, tmp_path / "t.json")
    assert "first launches of the recording" in get_problems(trace)["launch-without-work"]
    integrity = assess_integrity(trace)
    assert integrity.complete_steps == tuple(range(-(-lost // 10), 6))
    prediction = predict(trace, CALIBRATION)
    assert isinstance(prediction, Prediction)
    assert prediction.blockers == ()
    assert [find_steps(trace)[at].kernels for at in prediction.step.matching] == [
        10 for _ in integrity.complete_steps
    ]


def test_other_lost_kernels_are_not_called_the_first_of_a_session(tmp_path: Path) -> None:
    events = remove(
        make_events(), lambda e: e["cat"] == "kernel" and e["args"]["correlation"] == 1005
    )
    trace = read_events(events, tmp_path / "t.json")
    assert "first launches" not in get_problems(trace)["launch-without-work"]


def test_kernels_on_lanes_named_by_an_annotation_are_one_graph(tmp_path: Path) -> None:
    """As torch's annotation script writes them, with a text as stream."""
    events = make_replay(START, doubled=False)
    events[-1] |= {"tid": "layers.0.mlp"}
    events[-1]["args"]["stream"] = "layers.0.mlp"
    trace = read_events(events, tmp_path / "t.json")
    assert trace.gpu["graph_id"].to_list() == [4, 4]
    assert [step.kernels for step in find_steps(trace)] == [1]
