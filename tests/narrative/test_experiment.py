"""Sentences about the recorder's effect on a program."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.ledger.report import build_ledger_report
from graphviz_dash.analysis.ledger.savings import SavingAction
from graphviz_dash.analysis.metrics.program_step import list_step_times
from graphviz_dash.model.ledger import Ledger
from graphviz_dash.model.recording import ProcessOrigin, Recording, StartMethod, WindowEnd
from graphviz_dash.model.run import ExecutionMode, Run, WorkloadInfo
from graphviz_dash.narrative.experiment import describe_steps, list_recording_notes
from graphviz_dash.units import format_bytes, format_ns
from tests.bundle.examples import RECORDING
from tests.experiments import manifest
from tests.ledgers import make_ledger
from tests.samples import compared_sample

WORKLOAD = WorkloadInfo("server.py", "server.py", None, 0, 0, 0)


def list_notes(recording: Recording, ledger: Ledger | None = None) -> tuple[str, ...]:
    described = manifest(ExecutionMode.RECORDED, WORKLOAD)
    run = Run(path=Path("run"), manifest=described, recording=recording, ledger=ledger)
    return list_recording_notes(run, recording.window_steps)


def test_an_older_recording_has_no_notes() -> None:
    assert list_notes(RECORDING) == ()


def test_notes_report_pauses_limit_cupti_and_end() -> None:
    recording = replace(
        RECORDING,
        window_open_ns=3_000_000,
        window_close_ns=40_000_000,
        requested_window_steps=10,
        window_steps=4,
        window_ended_by=WindowEnd.EVENTS,
        cupti_attached="the program's environment has TEARDOWN_CUPTI=0",
        reached_end=False,
    )
    pauses, limit, attached, end = list_notes(recording)
    assert "for 3.00 ms when it opened and for 40.0 ms when it closed" in pauses
    assert pauses.startswith("The traced window holds 4 complete steps")
    assert limit.startswith("The traced window closed after 4 of 10 requested steps")
    assert "--window-pause" in limit
    assert attached.startswith("CUPTI is still attached (the program's environment has TEARDOWN_")
    assert "1.7 to 35 times more" in attached
    assert "killed" in end


def test_a_program_that_ended_well_has_no_note_about_its_end() -> None:
    recording = replace(RECORDING, window_ended_by=WindowEnd.STEPS, reached_end=True)
    assert list_notes(recording) == ()


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (WindowEnd.PROGRAM, "the program ended"),
        (WindowEnd.PROFILER, "the program started a profiler"),
        (WindowEnd.THREAD, "the traced thread ended or stopped executing steps"),
    ],
)
def test_a_window_without_a_step_is_reported(end: WindowEnd, reason: str) -> None:
    recording = replace(RECORDING, requested_window_steps=10, window_steps=0, window_ended_by=end)
    (note,) = list_notes(recording)
    assert note == (f"The traced window closed after 0 of 10 requested steps because {reason}.")
    assert list_notes(replace(recording, window_steps=10)) == ()


def test_a_worker_and_its_unused_graphs_are_reported() -> None:
    (graph, *_) = RECORDING.graphs
    used = replace(graph, graph="used", nodes=5, replays=3, alive=True)
    unused = replace(used, graph="unused", replays=0, capture_ns=2_000_000)
    evicted = replace(used, graph="evicted", eviction=True)
    process = ProcessOrigin("Scheduler", StartMethod.SPAWN, 7, 6, "recorded")
    recording = replace(RECORDING, graphs=(used, unused, evicted), process=process)
    worker, never, released = list_notes(recording)
    assert worker == "Process Scheduler, started by spawn from recorded; pid 7."
    assert never == "1 of 3 graphs were never replayed; their captures took 2.00 ms."
    assert released.startswith("The program released 1 of 3 graphs before its end")
    # All graphs die with the program.
    ended = replace(recording, graphs=(replace(used, alive=False), replace(unused, alive=False)))
    assert len(list_notes(ended)) == 2


def test_unused_graphs_have_the_figures_of_the_ledger() -> None:
    ledger = make_ledger()
    (graph, *_) = RECORDING.graphs
    graphs = tuple(
        replace(graph, graph=start.graph, nodes=5, replays=int(number == 0), alive=True)
        for number, start in enumerate(ledger.graphs)
    )
    recording = replace(RECORDING, graphs=graphs)
    described = manifest(ExecutionMode.RECORDED, WORKLOAD)
    run = Run(path=Path("run"), manifest=described, recording=recording)
    report = build_ledger_report(replace(run, ledger=ledger))
    assert report is not None
    (saving,) = (row for row in report.savings if row.action is SavingAction.UNUSED_GRAPHS)
    (note,) = list_notes(recording, ledger)
    assert note.startswith("2 of 3 graphs were never replayed; without them and their warm-ups ")
    assert f"saves {format_bytes(saving.bytes)} and {format_ns(saving.ns)} of start-up" in note


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        # The recorder saw the end of no step, and its trace has three.
        ("recorded-decoder", [3, 3]),
        # The window had 39 steps, and its trace could not be written.
        ("recorded-batching", [0]),
        ("recorded-vllm", [10]),
        ("sync-in-step", [10, 0]),
    ],
)
def test_traced_steps_are_those_of_the_trace(name: str, counts: list[int]) -> None:
    compared = compared_sample(name).runs
    assert [run.traced_steps for run in compared] == counts
    for run, count in zip(compared, counts, strict=True):
        if run.run.recording is not None:
            text = describe_steps(run.run, run.run.recording, run.traced_steps)
            assert f" timed, {count} traced, of " in text
            notes = " ".join(list_recording_notes(run.run, run.traced_steps))
            assert ("The traced window holds " in notes) == (
                f"The traced window holds {count} complete steps" in notes
            )
            assert "closed after" not in notes


@pytest.mark.parametrize("name", ["recorded-vllm", "recorded-sglang", "recorded-server"])
def test_as_many_steps_are_timed_as_the_median_has(name: str) -> None:
    """The median of an engine comes from all its steps."""
    (compared,) = compared_sample(name).runs
    run = compared.run
    assert run.recording is not None
    times = list_step_times(run)
    text = describe_steps(run, run.recording, compared.traced_steps)
    assert text.startswith(f"{len(times):,} timed, ")
    is_engine = len(times) > len(run.recording.step_ns)
    assert is_engine is (name != "recorded-server")
    assert (" traced, of the first " in text) is not is_engine
