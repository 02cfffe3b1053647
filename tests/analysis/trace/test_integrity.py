"""Conclusions from damaged and merged traces: none above the bound of the intact trace."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.comparison.result import RunComparison
from graphviz_dash.analysis.metrics.kernel_table import build_kernel_table
from graphviz_dash.analysis.prediction.predict import Prediction, PredictionWarning, predict
from graphviz_dash.analysis.trace.gpu_records import find_missing_gpu_work
from graphviz_dash.analysis.trace.integrity import Claim, assess_integrity
from graphviz_dash.analysis.trace.steps import find_steps
from graphviz_dash.exports.documents.integrity import build_integrity_document
from graphviz_dash.features.efficiency.analysis.report import measure_run_efficiency
from graphviz_dash.features.ranks.fleet import summarise_rank
from graphviz_dash.features.torch_compile.analysis.step_time import compute_step_time
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.narrative.low_confidence import describe_low_confidence
from graphviz_dash.narrative.prediction import list_warnings
from tests.analysis.frames import make_experiment, make_run
from tests.analysis.predictions import CALIBRATION
from tests.analysis.trace.damage import (
    BOUND,
    CHOICES,
    Damage,
    check_damage,
    get_speedup,
    run_clock,
)
from tests.analysis.trace.integrity_traces import (
    KERNEL_NS,
    Event,
    make_events,
    make_slice,
    read_events,
    remove,
    write_events,
)
from tests.cli.fixtures import Invoke
from tests.trace_builder import TraceBuilder


def get_step(event: Event) -> int:
    return int((event["ts"] - 1_700_000_000_000_000) // 910)


def test_a_complete_trace_supports_all_claims(tmp_path: Path) -> None:
    integrity = assess_integrity(read_events(make_events(), tmp_path / "t.json"))
    assert integrity.is_complete
    assert all(integrity.supports(claim) for claim in Claim)
    assert (integrity.launches, integrity.kernels, integrity.steps) == (60, 60, 6)
    assert integrity.complete_steps == (0, 1, 2, 3, 4, 5)


def test_lost_kernels_of_every_step_refuse_the_prediction(tmp_path: Path) -> None:
    chosen = random.Random(1).sample(range(1000, 1060), 42)
    events = remove(
        make_events(), lambda e: e["cat"] == "kernel" and e["args"]["correlation"] in chosen
    )
    trace = read_events(events, tmp_path / "t.json")
    reason = "42 of 60 kernel or graph launches have no GPU work, and no step is complete"
    assert get_speedup(trace) == reason
    (run,) = compare_runs(make_experiment(make_run("eager", trace=trace))).runs
    assert isinstance(run.graph_prediction, Missing)
    assert run["kernels"].missing is not None
    assert run["kernels"].missing.reason == reason
    assert run["launches"].value == 10
    (row,) = summarise_rank(trace, "t", "t.json", None, None).ranks
    assert (row["launch_bound_ns"], row["kernels"], row["step_ns"]) == (None, None, 900_000)


def test_lost_launches_of_every_step_give_no_launch_count(tmp_path: Path) -> None:
    lost = [1001 + 10 * step for step in range(6)]
    events = remove(
        make_events(),
        lambda e: e["cat"] == "cuda_runtime" and e["args"].get("correlation") in lost,
    )
    trace = read_events(events, tmp_path / "t.json")
    reason = "6 of 60 kernels have no launch in the trace, some in each step"
    (run,) = compare_runs(make_experiment(make_run("eager", trace=trace))).runs
    for name in ("launches", "graph_launches"):
        assert run[name].value is None
        assert run[name].missing == Missing(Fact.COMPLETE_TRACE, reason)
    assert run["kernels"].value == 10
    (row,) = summarise_rank(trace, "t", "t.json", None, None).ranks
    assert (row["other_launches"], row["graph_launches"], row["kernels"]) == (None, None, 10)
    prediction = predict(trace, CALIBRATION)
    assert isinstance(prediction, Prediction)
    (warning,) = (text for text in list_warnings(prediction) if "no launch" in text)
    assert warning.startswith("6 of 60 kernels have no launch in the trace: capture blockers and")


def test_launches_are_counted_in_the_steps_that_lost_none(tmp_path: Path) -> None:
    lost = (1001, 1002, 1013, 1024, 1035, 1044)
    events = remove(
        make_events(),
        lambda e: e["cat"] == "cuda_runtime" and e["args"].get("correlation") in lost,
    )
    trace = read_events(events, tmp_path / "t.json")
    integrity = assess_integrity(trace)
    assert (integrity.launched_steps, integrity.lost_launches) == ((5,), 6)
    run = read_and_compare(events, tmp_path)
    assert run["launches"].value == 10
    time = compute_step_time(trace, find_steps(trace), None)
    assert not isinstance(time, Missing)
    assert time.graph_launches == run["graph_launches"].value == 0


def make_lagging_trace(*, first_call_lost: bool) -> TraceBuilder:
    """Three steps of 100 µs, whose GPU runs work of earlier steps until they have ended."""
    builder = TraceBuilder()
    for index in range(5):
        call = builder.new_correlation()
        builder.kernel(f"earlier_{index}", index * 90_000, 80_000, correlation=call)
    for step in range(3):
        start = 5_000 + step * 100_000
        builder.annotation(f"ProfilerStep#{step + 3}", start, 99_000)
        for place in range(2):
            gpu_start = 500_000 + step * 200_000 + place * 90_000
            if step or place or not first_call_lost:
                call = builder.runtime("cudaLaunchKernel", start + place * 10_000 + 1_000, 5_000)
            else:
                call = builder.new_correlation()
            builder.kernel(f"kernel_{place}", gpu_start, 80_000, correlation=call)
    return builder


@pytest.mark.parametrize("first_call_lost", [False, True])
def test_work_from_before_the_trace_hides_no_launch_of_later_steps(
    tmp_path: Path, first_call_lost: bool
) -> None:
    builder = make_lagging_trace(first_call_lost=first_call_lost)
    trace = read_trace(builder.write(tmp_path / "t.json"))
    assert assess_integrity(trace).launched_steps == (1, 2)
    (run,) = compare_runs(make_experiment(make_run("eager", trace=trace))).runs
    assert run["launches"].value == 2


def test_a_step_with_lost_records_is_excluded_and_proves_no_data_dependence(tmp_path: Path) -> None:
    events = remove(
        make_events(), lambda e: e["cat"] == "kernel" and e["ts"] > 1_700_000_000_005_000
    )
    trace = read_events(events, tmp_path / "t.json")
    prediction = predict(trace, CALIBRATION)
    assert isinstance(prediction, Prediction)
    assert prediction.blockers == ()
    assert prediction.step.matching == (0, 1, 2, 3, 4)
    assert PredictionWarning.LOST_RECORDS in prediction.warnings
    assert any("1 of 6 steps is excluded" in text for text in list_warnings(prediction))


@pytest.mark.parametrize(("step", "kept"), [(5, "start"), (0, "end")])
def test_an_outer_step_that_the_recording_cut_is_no_data_dependence(
    tmp_path: Path, step: int, kept: str
) -> None:
    def is_lost(event: Event) -> bool:
        if get_step(event) != step or event["cat"] == "user_annotation":
            return False
        inside = (event["ts"] - 1_700_000_000_000_000) % 910
        return bool(inside > 450 if kept == "start" else inside < 450)

    trace = read_events(remove(make_events(), is_lost), tmp_path / "t.json")
    prediction = predict(trace, CALIBRATION)
    assert isinstance(prediction, Prediction)
    assert prediction.blockers == ()


def test_a_last_step_with_more_work_is_a_data_dependence(tmp_path: Path) -> None:
    extra = make_events(1)
    last = [event for event in extra if event["cat"] in ("kernel", "cuda_runtime")][-5:-1]
    shift = 5 * 910 + 60
    events = make_events() + [
        event
        | {"ts": event["ts"] + shift, "args": event["args"] | {"correlation": 5000}, "name": name}
        for event, name in zip(last[:2], ("cudaLaunchKernel", "branch"), strict=True)
    ]
    prediction = predict(read_events(events, tmp_path / "t.json"), CALIBRATION)
    assert isinstance(prediction, Prediction)
    assert [blocker.certain for blocker in prediction.blockers] == [True]


@pytest.mark.parametrize(
    ("pids", "first_ids"),
    [
        (("[TP00] 100", "[TP01] 100"), (1000, 1000)),
        ((500, 1500), (1000, 1000)),
        ((5, 6), (1, 9999)),
    ],
)
def test_merged_ranks_are_refused_with_the_way_to_separate_them(
    tmp_path: Path, pids: tuple[int | str, int | str], first_ids: tuple[int, int]
) -> None:
    ranks = zip(pids, first_ids, strict=True)
    events = [e for pid, first in ranks for e in make_events(pid=pid, first_id=first)]
    trace = read_events(events, tmp_path / "t.json")
    reason = get_speedup(trace)
    assert isinstance(reason, str)
    assert reason.startswith("it merges the traces of 2 processes: use the trace of each rank")
    (run,) = compare_runs(make_experiment(make_run("eager", trace=trace))).runs
    assert run["kernels"].value is None
    assert run["kernels"].missing is not None
    assert run["kernels"].missing.reason == reason


def test_a_step_on_two_devices_is_refused(tmp_path: Path) -> None:
    events = make_events() + make_events(device=1, first_id=5000)
    reason = get_speedup(read_events(events, tmp_path / "t.json"))
    assert isinstance(reason, str)
    assert reason.startswith("its work runs on 2 GPUs")


def test_doubled_marks_on_another_thread_are_the_same_steps(tmp_path: Path) -> None:
    events = make_events()
    marks = [event for event in events if event["cat"] == "user_annotation"]
    trace = read_events(events + [mark | {"tid": 200} for mark in marks], tmp_path / "t.json")
    assert [step.kernels for step in find_steps(trace)] == [10] * 6
    assert all(problem.code != "repeated-step" for problem in trace.info.problems)


def test_work_without_an_id_belongs_to_the_launches_without_work(tmp_path: Path) -> None:
    events = make_events()
    for event in events:
        if event["cat"] == "kernel" and event["name"] in ("kernel_1", "kernel_3"):
            event["args"]["correlation"] = 0
    trace = read_events(events, tmp_path / "t.json")
    codes = [problem.code for problem in trace.info.problems]
    assert "work-without-id" in codes
    assert not {"launch-without-work", "work-of-no-call"}.intersection(codes)
    assert assess_integrity(trace).lost_work == 0
    assert isinstance(get_speedup(trace), float)


def test_replays_without_ids_are_no_eager_trace(tmp_path: Path) -> None:
    events = remove(make_events(), lambda e: e["cat"] == "cuda_runtime" or e["cat"] == "cpu_op")
    for event in events:
        if event["cat"] == "kernel":
            event["args"]["correlation"] = 0
    marks = [event for event in events if event["cat"] == "user_annotation"]
    events += [
        make_slice("cuda_runtime", "hipGraphLaunch", mark["ts"] + 5, 9, 100, correlation=7 + at)
        for at, mark in enumerate(marks)
    ]
    reason = get_speedup(read_events(events, tmp_path / "t.json"))
    assert reason == (
        "10 of its 10 kernels, memcpys and memsets (100%) come from graph launches, so it is not "
        "an eager trace"
    )


def test_one_graph_launch_leaves_the_prediction_for_the_rest(tmp_path: Path) -> None:
    events = make_events()
    for event in events:
        if event["name"] == "cudaLaunchKernel" and event["args"]["correlation"] % 10 == 9:
            event["name"] = "cudaGraphLaunch"
    prediction = predict(read_events(events, tmp_path / "t.json"), CALIBRATION)
    assert isinstance(prediction, Prediction)
    assert any("1 of 10 kernels" in text for text in list_warnings(prediction))


def make_replays(lost: tuple[int, ...]) -> list[Event]:
    """Steps of one graph launch with ten kernels, without the kernels ``lost``."""
    events = remove(make_events(), lambda e: e["cat"] in ("cuda_runtime", "cpu_op"))
    events = remove(events, lambda e: e["args"].get("correlation") in lost)
    for event in events:
        if event["cat"] == "kernel":
            event["args"]["correlation"] = 7 + get_step(event)
    calls = [
        make_slice("cuda_runtime", "cudaGraphLaunch", e["ts"] + 5, 9, 100, correlation=7 + at)
        for at, e in enumerate(e for e in events if e["cat"] == "user_annotation")
    ]
    return events + calls


def test_a_replay_that_lacks_kernels_is_reported_and_its_step_excluded(tmp_path: Path) -> None:
    trace = read_events(make_replays((1023, 1027)), tmp_path / "t.json")
    integrity = assess_integrity(trace)
    assert (integrity.partial_replays, integrity.lost_work) == (1, 0)
    assert integrity.complete_steps == (0, 1, 3, 4, 5)
    assert not integrity.is_complete
    (run,) = compare_runs(make_experiment(make_run("graph", trace=trace))).runs
    texts = {note.code: note.text for note in describe_low_confidence(run.low_confidence)}
    assert texts["partial-replays"].startswith("1 graph launch without kernels")


def test_smaller_graphs_of_a_step_are_no_partial_replays(tmp_path: Path) -> None:
    """Each step launches a graph of ten kernels twice, and one with eight of them."""
    events = []
    for shift, lost in ((0, ()), (300, ()), (600, (3, 7))):
        gone = tuple(1000 + 10 * step + kernel for step in range(6) for kernel in lost)
        events += [
            event
            | {"ts": event["ts"] + (shift if event["cat"] != "user_annotation" else 0)}
            | {"args": event["args"] | {"correlation": event["args"]["correlation"] + shift}}
            for event in make_replays(gone)
            if "correlation" in event["args"]
        ]
    events += [event for event in make_events() if event["cat"] == "user_annotation"]
    integrity = assess_integrity(read_events(events, tmp_path / "t.json"))
    assert integrity.partial_replays == 0
    assert integrity.complete_steps == (0, 1, 2, 3, 4, 5)


def test_complete_replays_are_no_partial_ones(tmp_path: Path) -> None:
    assert assess_integrity(read_events(make_replays(()), tmp_path / "t.json")).is_complete


def test_one_step_of_a_cut_file_gives_no_verdict(tmp_path: Path) -> None:
    one_step = len(make_events(1))
    trace = read_events(make_events()[: one_step + 1], tmp_path / "t.json", cut=0.97)
    assert get_speedup(trace) == "the file is cut, and only 1 of 1 steps is complete"
    assert not assess_integrity(trace).supports(Claim.DATA_DEPENDENCE)


def test_an_eager_trace_without_steps_predicts_no_step(tmp_path: Path) -> None:
    whole = remove(make_events(), lambda event: event["cat"] == "user_annotation")
    eager = make_run("eager", trace=read_events(whole, tmp_path / "a.json"))
    graph = make_run("graph", trace=read_events(make_events(), tmp_path / "b.json"))
    figure = compare_runs(make_experiment(eager, graph))["graph"]["predicted_step_time"]
    assert figure.value is None
    assert figure.missing is not None
    assert figure.missing.reason.startswith("the trace marks no steps")


def test_fleet_and_predict_agree_on_launch_bound_time(tmp_path: Path) -> None:
    trace = read_events(make_events(), tmp_path / "t.json")
    prediction = predict(trace, CALIBRATION)
    assert isinstance(prediction, Prediction)
    (row,) = summarise_rank(trace, "t", "t.json", None, None).ranks
    idle = prediction.idle
    assert row["launch_bound_ns"] == pytest.approx(idle.total_ns * (1 - idle.remaining_share))


def test_compile_and_show_count_graph_launches_alike(tmp_path: Path) -> None:
    """Also launches outside any compiled call."""
    events = make_events()
    for event in events:
        if event["name"] == "cudaLaunchKernel" and event["args"]["correlation"] % 5 == 0:
            event["name"] = "cudaGraphLaunch"
    trace = read_events(events, tmp_path / "t.json")
    steps = find_steps(trace)
    time = compute_step_time(trace, steps, None)
    assert not isinstance(time, Missing)
    (run,) = compare_runs(make_experiment(make_run("eager", trace=trace))).runs
    assert time.graph_launches == run["graph_launches"].value == 2


def test_launches_without_any_record_include_copies(tmp_path: Path) -> None:
    events = remove(make_events(2, 2), lambda event: event["cat"] == "kernel")
    for event in events:
        if event["name"] == "cudaLaunchKernel" and event["args"]["correlation"] % 2:
            event["name"] = "cudaMemcpyAsync"
    missing = find_missing_gpu_work(read_events(events, tmp_path / "t.json"))
    assert missing is not None
    assert missing.reason.startswith(
        "the trace contains 4 launches (2 of kernels, 2 of copies and sets) but none of their GPU"
    )


def test_calls_without_a_launch_are_no_missing_profiler_activity(tmp_path: Path) -> None:
    events = [e for e in make_events() if e["name"] == "cudaDeviceSynchronize"]
    missing = find_missing_gpu_work(read_events(events, tmp_path / "t.json"))
    assert missing is not None
    assert missing.reason.startswith("nothing was launched while the trace was recorded")


def test_documents_hold_the_integrity(tmp_path: Path) -> None:
    merged = make_events() + make_events(pid=7)
    document = build_integrity_document(assess_integrity(read_events(merged, tmp_path / "t.json")))
    assert (document.processes, document.launches, document.is_cut) == (2, 120, False)
    assert document.unsupported.keys() == {claim.value for claim in Claim}


def test_traces_of_other_days_are_not_ranks(tmp_path: Path, invoke: Invoke) -> None:
    (tmp_path / "days").mkdir()
    for day, slow in enumerate((1, 4, 1)):
        events = make_events()
        for event in events:
            event["ts"] += day * 86_400_000_000
            event["dur"] *= slow if event["cat"] == "kernel" else 1
        write_events(events, tmp_path / "days" / f"{day}.json")
    printed = invoke("fleet", str(tmp_path / "days"), "--workers", "1")
    assert printed.code == 0
    assert printed.out.count("1 trace read") == 3
    assert "Slow" not in printed.out


def test_traces_of_one_day_without_ranks_are_not_compared(tmp_path: Path, invoke: Invoke) -> None:
    for name, slow in (("a", 1), ("b", 4), ("c", 1)):
        events = make_events()
        for event in events:
            event["dur"] *= slow if event["cat"] == "kernel" else 1
        write_events(events, tmp_path / f"{name}.json")
    printed = invoke("fleet", str(tmp_path), "--workers", "1")
    assert "3 traces read" in printed.out
    assert "not compared: the traces do not name different ranks" in printed.out
    assert "Slow" not in printed.out


def test_a_fleet_without_a_readable_trace_exits_with_2(tmp_path: Path, invoke: Invoke) -> None:
    (tmp_path / "a.json").write_text('{"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": ')
    result = invoke("fleet", str(tmp_path), "--workers", "1")
    assert (result.code, "1 file could not be read" in result.err) == (2, True)


def read_and_compare(events: list[Event], tmp_path: Path) -> RunComparison:
    trace = read_events(events, tmp_path / "t.json")
    (run,) = compare_runs(make_experiment(make_run("eager", trace=trace))).runs
    return run


def test_values_come_from_the_complete_steps_only(tmp_path: Path) -> None:
    """Without the GPU work of five of six steps, the median step is not idle."""
    events = remove(make_events(), lambda e: e["cat"] == "kernel" and get_step(e) < 5)
    run = read_and_compare(events, tmp_path)
    values = [run[name].value for name in ("gpu_busy", "kernels", "concurrency")]
    assert values == [10 * KERNEL_NS, 10, 1]
    trace = read_events(events, tmp_path / "t.json")
    rank = summarise_rank(trace, "t", "t.json", None, None)
    assert (rank.ranks[0]["busy_ns"], rank.ranks[0]["kernels"]) == (10 * KERNEL_NS, 10)
    assert {row["count"] for row in rank.kernels} == {1}
    table = build_kernel_table(make_experiment(make_run("eager", trace=trace)))
    assert {use.count for row in table.rows for use in row.uses if use} == {1}


@pytest.mark.parametrize("shift", [-2_000, -450, 450, 5_000])
def test_shifted_clocks_leave_counts_but_no_busy_time(tmp_path: Path, shift: int) -> None:
    events = make_events()
    for event in events:
        event["ts"] += shift if event["cat"] == "kernel" else 0
    run = read_and_compare(events, tmp_path)
    assert run["kernels"].value == 10
    for name in ("gpu_busy", "busy_fraction", "concurrency"):
        missing = run[name].missing
        assert missing is not None
        assert missing.reason.startswith("CPU and GPU clocks differ")
    trace = read_events(events, tmp_path / "t.json")
    (row,) = summarise_rank(trace, "t", "t.json", None, None).ranks
    assert (row["busy_ns"], row["launch_bound_ns"]) == (None, None)
    assert row["gpu_missing"].startswith("CPU and GPU clocks differ")


def test_fleet_names_the_reason_of_unknown_gpu_work(tmp_path: Path, invoke: Invoke) -> None:
    merged = make_events(pid=1) + make_events(pid=2, first_id=9000)
    path = write_events(merged, tmp_path / "t.json")
    printed = " ".join(invoke("fleet", str(path), "--workers", "1").out.split())
    assert "1 trace: unknown GPU work: it merges the traces of 2 processes" in printed


@pytest.mark.parametrize("damage", ["lost", "merged"])
def test_no_table_counts_kernels_of_damaged_steps(tmp_path: Path, damage: str) -> None:
    if damage == "merged":
        events = make_events(pid=1) + make_events(pid=2, first_id=9000)
    else:
        events = remove(make_events(), lambda e: e["name"] in ("kernel_3", "kernel_4"))
    run = make_run("eager", trace=read_events(events, tmp_path / "t.json"))
    table = build_kernel_table(make_experiment(run))
    assert not table.rows
    assert table.missing_reasons.keys() == {"eager"}
    (compared,) = compare_runs(make_experiment(run)).runs
    assert compared["graph_time_share"].value is None
    assert isinstance(measure_run_efficiency(run), Missing)


def test_marks_of_a_process_without_launches_are_ignored(tmp_path: Path) -> None:
    events = make_events()
    marks = [event for event in events if event["cat"] == "user_annotation"]
    for extra in ({"pid": 5}, {"pid": 5, "tid": 7, "ts": marks[0]["ts"] + 400}):
        trace = read_events(events + [mark | extra for mark in marks], tmp_path / "t.json")
        assert [step.kernels for step in find_steps(trace)] == [10] * 6


def test_steps_that_lost_calls_with_their_work_are_excluded(tmp_path: Path) -> None:
    """The CPU ran the same operators in each step."""
    lost = range(1023, 1037)
    events = remove(make_events(), lambda e: e["args"].get("correlation") in lost)
    prediction = predict(read_events(events, tmp_path / "t.json"), CALIBRATION)
    assert isinstance(prediction, Prediction)
    assert prediction.blockers == ()
    assert prediction.step.matching == (0, 1, 4, 5)
    assert any(
        text.startswith("2 of 6 steps lack work of others with the same operators; 2 of 6")
        for text in list_warnings(prediction)
    )
    run = read_and_compare(events, tmp_path)
    assert [run[name].value for name in ("kernels", "launches")] == [10, 10]
    texts = {note.code: note.text for note in describe_low_confidence(run.low_confidence)}
    assert texts["incomplete-launches"].startswith(
        "2 traced steps of 6 without work of others with"
    )
    # Without these operators, Python took another path.
    lost_names = {f"aten::op{index}" for index in range(7)}
    other_path = remove(events, lambda e: e["name"] in lost_names and get_step(e) == 3)
    prediction = predict(read_events(other_path, tmp_path / "t.json"), CALIBRATION)
    assert isinstance(prediction, Prediction)
    assert [blocker.certain for blocker in prediction.blockers] == [True]


def test_calls_lost_with_their_work_in_all_steps_refuse_the_prediction(tmp_path: Path) -> None:
    """Once 4.90x, where no speedup above 4.5x was possible."""
    draw = random.Random(5)
    lost = {number for number in range(1000, 1060) if draw.random() < 0.3}
    events = remove(make_events(), lambda e: e["args"].get("correlation") in lost)
    reason = get_speedup(read_events(events, tmp_path / "t.json"))
    assert reason == (
        "6 of 6 steps lack work of others with the same operators, and no step is complete"
    )


def select_steps_with_less_work(tmp_path: Path, events: list[Event]) -> list[int]:
    integrity = assess_integrity(read_events(events, tmp_path / "t.json"))
    return sorted({0, 1, 2, 3, 4, 5}.difference(integrity.complete_steps))


def test_work_of_other_sizes_is_not_less_work(tmp_path: Path) -> None:
    events = remove(make_events(), lambda e: e["args"].get("correlation") == 1025)
    assert select_steps_with_less_work(tmp_path, events) == [2]
    for event in events:
        if event["name"] == "kernel_7" and get_step(event) == 2:
            event["args"]["grid"] = [8, 1, 1]
    assert select_steps_with_less_work(tmp_path, events) == []


@pytest.mark.parametrize(
    ("lost_pairs", "complete"),
    [((1, 12, 23, 34, 40, 51), ()), ((1, 12, 23, 34), (4, 5)), ((), (0, 1, 2, 3, 4, 5))],
)
@pytest.mark.parametrize("always", [True, False])
def test_steps_that_lost_calls_must_have_all_work_of_the_others(
    tmp_path: Path, lost_pairs: tuple[int, ...], complete: tuple[int, ...], always: bool
) -> None:
    """Work without a call may be of any operator: once 7.66x, where 6.3x was the limit."""
    lost_calls = [1000 + 10 * step + kernel for step in range(6) for kernel in (7, 8, 9)]
    lost_calls = lost_calls if always else lost_calls[1:]
    events = remove(
        make_events(),
        lambda e: (
            e["args"].get("correlation", 0) - 1000 in lost_pairs
            or (e["cat"] == "cuda_runtime" and e["args"].get("correlation") in lost_calls)
        ),
    )
    trace = read_events(events, tmp_path / "t.json")
    assert assess_integrity(trace).complete_steps == complete
    speedup = get_speedup(trace)
    if complete:
        assert isinstance(speedup, float)
        assert speedup <= BOUND
    else:
        assert speedup == (
            "6 of 6 steps lack work of others with the same operators, and no step is complete"
        )


@pytest.mark.parametrize("kind", ["copies", "kernels"])
def test_calls_that_are_never_recorded_are_not_lost(tmp_path: Path, kind: str) -> None:
    """As those of copies, or of Triton's kernels in old torch; some steps run more of this work."""
    lost = {1000 + 10 * step + kernel for step in range(6) for kernel in (7, 8, 9)}
    less = {1009, 1029, 1039}
    events = remove(
        make_events(),
        lambda e: (
            e["args"].get("correlation") in lost
            and (e["cat"] == "cuda_runtime" or e["args"]["correlation"] in less)
        ),
    )
    for event in events:
        if kind == "copies" and event["cat"] == "kernel" and event["args"]["correlation"] in lost:
            event |= {"cat": "gpu_memcpy", "name": "Memcpy DtoD (Device -> Device)"}
    assert select_steps_with_less_work(tmp_path, events) == []


def test_a_launch_without_work_shows_a_lost_call_of_another_step(tmp_path: Path) -> None:
    """Both steps run the same work: once 6.57x, where 5.4x was the limit."""
    lost = {"kernel": (1000, 1010), "cuda_runtime": (1010,)}
    events = remove(
        make_events(steps=2), lambda e: e["args"].get("correlation") in lost.get(e["cat"], ())
    )
    assert assess_integrity(read_events(events, tmp_path / "t.json")).incomplete_launches == 1


def test_a_warm_up_with_more_work_shows_no_loss(tmp_path: Path) -> None:
    lost = range(1015, 1060, 10)
    events = remove(make_events(), lambda e: e["args"].get("correlation") in lost)
    assert select_steps_with_less_work(tmp_path, events) == []
    events = remove(make_events(), lambda e: e["args"].get("correlation") in lost[1:])
    assert select_steps_with_less_work(tmp_path, events) == [2, 3, 4, 5]


def test_launches_outside_operators_show_no_loss(tmp_path: Path) -> None:
    """Python may decide about them."""
    events = remove(make_events(), lambda e: e["name"] in ("aten::op5", "aten::op6"))
    events = remove(events, lambda e: e["args"].get("correlation") == 1025)
    assert select_steps_with_less_work(tmp_path, events) == []


def test_merged_ranks_whose_work_shares_a_lane_and_ids_stay_merged(
    tmp_path: Path, invoke: Invoke
) -> None:
    later = [event | {"ts": event["ts"] + 450} for event in make_events(pid=2)]
    path = write_events(make_events(pid=1) + later, tmp_path / "t.json")
    folder = tmp_path / "E"
    assert invoke("import", str(path), "-o", str(folder)).code == 0
    (run,) = folder.iterdir()
    assert "merges the traces of 2 processes" in " ".join(
        invoke("show", str(run), "--all").out.split()
    )


def test_a_trace_without_calls_has_no_launch_count(tmp_path: Path) -> None:
    """Zero launches would pass a gate as a gain."""
    events = remove(make_events(), lambda e: e["cat"] in ("cuda_runtime", "cpu_op"))
    run = read_and_compare(events, tmp_path)
    reason = "60 of 60 kernels have no launch in the trace"
    assert run["launches"].missing == Missing(Fact.COMPLETE_TRACE, reason)
    assert run["kernels"].value == 10


def add_marks(kind: str) -> list[Event]:
    """Marks that overlap those of the steps: an outer loop, halves of steps, another thread."""
    events = make_events()
    marks = [event for event in events if event["cat"] == "user_annotation"]
    match kind:
        case "outer":
            first = marks[0] | {"ts": marks[0]["ts"] - 5, "dur": 6 * 910 + 10}
            return [first, *events]
        case "halves":
            halves = [
                mark | {"name": f"ProfilerStep#{2 * step + half}", "dur": 440}
                | {"ts": mark["ts"] + 450 * half}
                for step, mark in enumerate(marks)
                for half in (0, 1)
            ]  # fmt: skip
            return events + halves
    other = make_events(first_id=7000)
    for event in other:
        event["ts"] += 455
        event["tid"] = event["tid"] if event["cat"] == "kernel" else 101
        if event["cat"] == "user_annotation":
            event["name"] = f"ProfilerStep#{100 + get_step(event)}"
    return events + other


@pytest.mark.parametrize("kind", ["outer", "halves", "thread"])
def test_overlapping_steps_support_no_claim(tmp_path: Path, kind: str) -> None:
    """Their work and calls belong to two steps, or to none."""
    trace = read_events(add_marks(kind), tmp_path / "t.json")
    reason = get_speedup(trace)
    assert isinstance(reason, str)
    assert "marked steps overlap" in reason
    integrity = assess_integrity(trace)
    assert not any(integrity.supports(claim) for claim in Claim)
    (row,) = summarise_rank(trace, "t", "t.json", None, None).ranks
    assert (row["step_ns"], row["busy_ns"], row["kernels"]) == (None, None, None)


def test_kernels_without_a_length_have_no_busy_time(tmp_path: Path) -> None:
    events = make_events()
    for event in events:
        event["dur"] *= event["cat"] != "kernel"
    trace = read_events(events, tmp_path / "t.json")
    reason = "60 of 60 kernels last 0 ns in the trace"
    assert get_speedup(trace) == reason
    (run,) = compare_runs(make_experiment(make_run("eager", trace=trace))).runs
    assert run["gpu_busy"].missing == Missing(Fact.COMPLETE_TRACE, reason)
    assert run["kernels"].value == 10


def test_empty_steps_are_excluded_and_reported(tmp_path: Path) -> None:
    events = remove(
        make_replays(()), lambda e: e["cat"] != "user_annotation" and get_step(e) in (0, 1, 4)
    )
    run = read_and_compare(events, tmp_path)
    assert [run[name].value for name in ("kernels", "graph_launches")] == [10, 1]
    texts = {note.code: note.text for note in describe_low_confidence(run.low_confidence)}
    assert texts["empty-steps"].startswith("3 traced steps of 6 without any work")
    eager = remove(make_events(), lambda e: e["cat"] != "user_annotation" and get_step(e) in (2, 3))
    prediction = predict(read_events(eager, tmp_path / "t.json"), CALIBRATION)
    assert isinstance(prediction, Prediction)
    assert any("2 of 6 steps contain no work" in text for text in list_warnings(prediction))


@pytest.mark.parametrize("rate", [0.95, 0.98, 1.02, 1.05])
@pytest.mark.parametrize("scaled", [("ts",), ("ts", "dur")])
def test_drifting_clocks_give_no_speedup_above_the_bound(
    tmp_path: Path, rate: float, scaled: tuple[str, ...]
) -> None:
    events = make_events()
    run_clock(events, rate, scaled)
    trace = read_events(events, tmp_path / "t.json")
    prediction = predict(trace, CALIBRATION)
    assert isinstance(prediction, Prediction)
    assert not isinstance(prediction.speedup, Missing)
    assert prediction.speedup.value <= BOUND
    (warning,) = (text for text in list_warnings(prediction) if "the step time may be" in text)
    assert "so the predicted step is" in warning
    # Waits for the GPU show when the steps ended.
    assert {step.duration_ns for step in find_steps(trace)} == {900_000}


def test_calls_of_unknown_backends_support_no_prediction(tmp_path: Path) -> None:
    """Once 1.10x, where launching takes most of the step."""
    events = make_events()
    for event in events:
        if event["name"] == "cudaLaunchKernel":
            event |= {"cat": "privateuse1_runtime", "name": "Launch"}
    trace = read_events(events, tmp_path / "t.json")
    reason = "the calls of 60 of 60 kernels are not known as launches"
    assert get_speedup(trace) == reason
    run = read_and_compare(events, tmp_path)
    assert run["launches"].missing == Missing(Fact.COMPLETE_TRACE, reason)
    assert run["kernels"].value == 10
    (row,) = summarise_rank(trace, "t", "t.json", None, None).ranks
    assert row["launch_bound_ns"] is None


def test_negative_ids_are_no_ids(tmp_path: Path) -> None:
    events = make_events()
    for event in events:
        if event["name"] == "kernel_5":
            event["args"]["correlation"] = -1
    codes = [p.code for p in read_events(events, tmp_path / "t.json").info.problems]
    assert "work-without-id" in codes
    assert not {"launch-without-work", "work-of-no-call", "work-without-launch"}.intersection(codes)


def test_a_step_that_never_ends_gives_no_step_time_of_a_rank(tmp_path: Path) -> None:
    events = make_events()
    for event in events:
        if event["cat"] == "kernel" and event["args"]["correlation"] == 1015:
            event["dur"] = 10**9
    trace = read_events(events, tmp_path / "t.json")
    (row,) = summarise_rank(trace, "t", "t.json", None, None).ranks
    assert row["step_ns"] is None


@pytest.mark.parametrize(("shift", "kernels"), [(0, 10), (90, None)])
def test_kernels_without_a_launch_may_be_as_late_as_the_others(
    tmp_path: Path, shift: int, kernels: int | None
) -> None:
    """The last kernel of each step then starts in the next one."""
    lost = range(1009, 1060, 10)
    events = remove(
        make_events(),
        lambda e: e["cat"] == "cuda_runtime" and e["args"].get("correlation") in lost,
    )
    for event in events:
        event["ts"] += shift if event["cat"] == "kernel" else 0
    assert read_and_compare(events, tmp_path)["kernels"].value == kernels


@pytest.mark.parametrize("shift", [-2_000, 5_000])
def test_kernels_outside_the_steps_have_lost_the_launches_of_any_step(
    tmp_path: Path, shift: int
) -> None:
    """Without any pair of launch and kernel, nothing shows how far the clocks differ."""
    events = remove(make_events(1), lambda e: e["args"].get("correlation", 1000) != 1000)
    for event in events:
        event["ts"] += shift if event["cat"] == "kernel" else 0
        if event["cat"] == "cuda_runtime" and "correlation" in event["args"]:
            event["args"]["correlation"] = 1003
    launches = read_and_compare(events, tmp_path)["launches"]
    assert launches.missing == Missing(
        Fact.COMPLETE_TRACE, "1 of 1 kernel has no launch in the trace"
    )


def damage(kind: str) -> list[Event]:
    """Events of which some were lost, or which mark no steps."""
    losses: dict[str, Callable[[Event], bool]] = {
        "work": lambda e: e["cat"] == "kernel" and e["args"]["correlation"] == 1005,
        "launches": lambda e: (
            e["cat"] == "cuda_runtime" and e["args"].get("correlation", 0) % 10 == 3
        ),
        "all work": lambda e: e["cat"] == "kernel" and e["args"]["correlation"] % 10 == 3,
        "marks": lambda e: e["cat"] == "user_annotation",
    }
    return remove(make_events(), losses[kind])


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("work", "Partial: 1 of 60 kernel or graph launches have no GPU work; 1 of 6 steps"),
        ("launches", "all calls: 6 of 60 kernels have no launch in the trace, so other calls may"),
        ("marks", "possibly illegal: The CPU waits for the GPU"),
    ],
)
def test_doctor_says_what_a_damaged_trace_cannot_show(
    tmp_path: Path, invoke: Invoke, kind: str, text: str
) -> None:
    path = write_events(damage(kind), tmp_path / "t.json")
    folder = tmp_path / "E"
    assert invoke("import", str(path), "-o", str(folder)).code == 0
    result = invoke("doctor", "--bundle", str(folder))
    assert result.code == 0
    assert text in " ".join(result.out.split())


def test_gate_fails_on_figures_that_the_trace_no_longer_supports(
    tmp_path: Path, invoke: Invoke
) -> None:
    for name, events in (("before", make_events()), ("after", damage("launches"))):
        (tmp_path / name).mkdir()
        path = write_events(events, tmp_path / name / "run.json")
        assert invoke("import", str(path), "-o", str(tmp_path / name / "E")).code == 0
    baseline = str(tmp_path / "baseline.json")
    before, after = (str(tmp_path / name / "E") for name in ("before", "after"))
    assert invoke("gate", before, "--write-baseline", baseline).code == 0
    result = invoke("gate", after, "--baseline", baseline)
    assert result.code == 1
    assert "Launches per step is missing: 6 of 60 kernels have no launch" in " ".join(
        result.out.split()
    )


@pytest.mark.parametrize("command", ["kernels", "equation", "pairs"])
def test_exports_name_the_reason_of_runs_without_rows(
    tmp_path: Path, invoke: Invoke, command: str
) -> None:
    path = write_events(damage("all work"), tmp_path / "t.json")
    folder = tmp_path / "E"
    assert invoke("import", str(path), "-o", str(folder)).code == 0
    result = invoke("export", command, str(folder), "-o", str(tmp_path / "t.csv"))
    assert result.code == 0
    assert "\nt: no rows: " in result.err
    if command == "kernels":
        assert "6 of 60 kernel or graph launches have no GPU work" in result.err


@pytest.mark.parametrize("repeated", ["all", "kernels", "one"])
def test_repeated_events_count_once(tmp_path: Path, repeated: str) -> None:
    """As in files that were joined twice."""
    copies = {
        "all": make_events(),
        "kernels": [e for e in make_events() if e["cat"] == "kernel"],
        "one": [e for e in make_events() if e["args"].get("correlation") == 1017],
    }[repeated]
    trace = read_events(make_events() + copies, tmp_path / "t.json")
    assert [step.kernels for step in find_steps(trace)] == [10] * 6
    assert [step.launches for step in find_steps(trace)] == [10] * 6
    (problem,) = (p for p in trace.info.problems if p.code == "repeated-events")
    assert problem.text.startswith(f"{ {'all': 120, 'kernels': 60, 'one': 2}[repeated] } slices")
    assert get_speedup(trace) == get_speedup(read_events(make_events(), tmp_path / "u.json"))


def test_equal_kernels_of_a_replay_are_not_repeated(tmp_path: Path) -> None:
    """Two branches may run the same kernel at the same time."""
    events = make_replays(())
    twin = [e for e in events if e["name"] == "kernel_4"]
    trace = read_events(events + twin, tmp_path / "t.json")
    assert [step.kernels for step in find_steps(trace)] == [11] * 6


DAMAGE = st.builds(
    Damage,
    seed=st.integers(0, 1 << 20),
    steps=st.integers(1, 7),
    kernels=st.integers(1, 8),
    lost_step=st.one_of(st.none(), st.tuples(st.integers(0, 6), st.floats(0, 1))),
    cut=st.one_of(st.just(1.0), st.floats(0.05, 1)),
    **{name: st.sampled_from(values) for name, values in CHOICES.items()},
)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(damage=DAMAGE)
def test_no_speedup_is_above_the_bound(tmp_path: Path, damage: Damage) -> None:
    """``python -m evaluation.traces.bounds`` tries 10,000."""
    check_damage(damage, tmp_path)
