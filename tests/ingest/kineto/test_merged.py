from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graphviz_dash.analysis.trace.integrity import assess_integrity
from graphviz_dash.analysis.trace.steps import find_steps
from graphviz_dash.importers.bundles import import_files
from graphviz_dash.ingest.formats.registry import read_foreign
from graphviz_dash.ingest.kineto.merged import InseparableError, separate_processes
from graphviz_dash.ingest.limits import DEFAULT_LIMITS
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.trace import Trace
from tests.analysis.trace.integrity_traces import Event, make_events, make_slice, write_events


def relabel(events: list[Event], label: str) -> list[Event]:
    """As SGLang's merger: a label before each process, of GPU lanes too."""
    return [event | {"pid": f"[{label}] {event['pid']}"} for event in events]


def shift(events: list[Event], **changes: int) -> list[Event]:
    return [event | {name: event[name] + by for name, by in changes.items()} for event in events]


def separate(events: list[Event], folder: Path) -> dict[str, Trace]:
    contents = read_foreign(write_events(events, folder / "t.json"), folder, DEFAULT_LIMITS)
    return {content.label: content.trace for content in contents if content.trace is not None}


def check(traces: dict[str, Trace], labels: list[str]) -> None:
    """Each process has its six steps of ten kernels, and nothing else."""
    assert list(traces) == labels
    for trace in traces.values():
        assert [step.kernels for step in find_steps(trace)] == [10] * 6
        integrity = assess_integrity(trace)
        assert (integrity.processes, integrity.is_complete) == (1, True)
        assert all(name != "aten::stray" for name in trace.ops["name"])


def test_labels_separate_ranks_that_share_ids(tmp_path: Path) -> None:
    events = relabel(make_events(), "TP00") + relabel(make_events(), "TP01")
    traces = separate(events, tmp_path)
    check(traces, ["-TP00", "-TP01"])
    assert {int(trace.runtime["pid"][0]) for trace in traces.values()} == {100}


def test_ids_of_one_process_separate_work_on_one_lane(tmp_path: Path) -> None:
    events = make_events(pid=7, first_id=1) + make_events(pid=8, first_id=9_000)
    check(separate(events, tmp_path), ["-pid7", "-pid8"])


def test_a_number_added_per_rank_separates_ranks_that_share_ids(tmp_path: Path) -> None:
    first = shift(make_events(pid=500), pid=0)
    second = shift(make_events(pid=500), pid=1000)
    check(separate(first + second, tmp_path), ["-pid500", "-pid1500"])


def test_times_separate_ranks_that_share_ids(tmp_path: Path) -> None:
    first, second = make_events(pid=7), make_events(pid=8, device=3)
    check(separate(first + shift(second, ts=50), tmp_path), ["-pid7", "-pid8"])
    events = first + second
    with pytest.raises(InseparableError, match="may belong to 2 processes"):
        separate_processes(write_events(events, tmp_path / "t.json"), tmp_path, DEFAULT_LIMITS)


def test_work_without_a_launch_on_a_shared_lane_is_inseparable(tmp_path: Path) -> None:
    events = make_events(pid=7, first_id=1) + make_events(pid=8, first_id=9_000)
    events.append(make_slice("kernel", "stray", events[3]["ts"], 5, 0, 7, device=0, stream=7))
    (trace,) = separate(events, tmp_path).values()
    assert assess_integrity(trace).processes == 2


def test_other_processes_are_omitted_and_a_cut_file_has_cut_parts(tmp_path: Path) -> None:
    stray = make_slice("cpu_op", "aten::stray", 1_700_000_000_000_000, 9, 999)
    events = [stray, *relabel(make_events(), "DP-0"), *relabel(make_events(), "DP-1")]
    check(separate(events, tmp_path), ["-DP-0", "-DP-1"])
    path = write_events(events, tmp_path / "cut.json", cut=0.9)
    contents = read_foreign(path, tmp_path, DEFAULT_LIMITS)
    assert [content.trace.info.is_cut for content in contents if content.trace] == [True, True]


def test_an_import_writes_one_run_per_rank(tmp_path: Path) -> None:
    events = relabel(make_events(), "TP00") + relabel(make_events(), "TP01")
    path = write_events(events, tmp_path / "merged.json")
    imported = import_files([path], tmp_path / "E")
    runs: list[Any] = [load_run(run.path).manifest for run in imported]
    assert [(run.rank, run.group.world_size) for run in runs] == [(0, 2), (1, 2)]
    assert [run.path.name for run in imported] == ["merged-TP00-rank0", "merged-TP01-rank1"]
    assert runs[0].sources[0].method == "the events of one process in a merged trace"
