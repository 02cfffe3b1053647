"""One-line description of an experiment, and notes about its recordings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from graphviz_dash.analysis.ledger.graphs import build_graph_ledgers
from graphviz_dash.analysis.ledger.savings import measure_unused_graphs
from graphviz_dash.analysis.metrics.program_step import list_recorded_times
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.model.recording import (
    RecordedGraph,
    Recording,
    StartMethod,
    WindowEnd,
    find_released_graphs,
)
from graphviz_dash.model.run import Experiment, Run
from graphviz_dash.narrative.columns import COUNT, MILLISECONDS, TEXT, Column
from graphviz_dash.units import format_bytes, format_count, format_ns, pluralize

LASTING_COST: Final = "later graph launches cost 1.7 to 35 times more (0.2 to 0.6 µs per node)"
"""Measured on an H100 with driver 580 and torch 2.11: the launch calls of nine programs."""

_WINDOW_ENDS: Final[Mapping[WindowEnd | None, str]] = {
    WindowEnd.EVENTS: "more events would have paused the program for longer (--window-pause)",
    WindowEnd.PROGRAM: "the program ended",
    WindowEnd.PROFILER: "the program started a profiler",
    WindowEnd.THREAD: "the traced thread ended or stopped executing steps",
}
"""Reasons for a window with fewer steps than requested."""


def describe_experiment(experiment: Experiment) -> str:
    """Return the author's description of ``experiment``, or build one from its manifests."""
    if experiment.description is not None:
        return experiment.description
    runs = experiment.runs
    names = dict.fromkeys(run.manifest.workload.name for run in runs)
    subject = ", ".join(names)
    if all(run.manifest.sources for run in runs):
        return f"{subject}: {pluralize(len(runs), 'run')} imported from files of other tools"
    if all(run.mode.is_recorded for run in runs):
        return f"{subject}, recorded unmodified in {pluralize(len(runs), 'run')}"
    modes = ", ".join(dict.fromkeys(run.mode.value for run in runs))
    ranks = {run.manifest.job_rank for run in runs} - {None}
    by_rank = f" on {pluralize(len(ranks), 'rank')}" if ranks else ""
    return f"The workload {subject}{by_rank}: {modes}"


def describe_run_differences(first: Run, second: Run) -> str:
    """Describe differences between two runs besides their graphs, omitting facts unknown for one;
    empty if there are none."""
    differences = [
        *_list_workload_differences(first, second),
        *_list_machine_differences(first, second),
    ]
    if not differences:
        return ""
    return (
        f"Besides graphs, the two runs differ in {'; '.join(differences)}. The figures below "
        "include these differences."
    )


def _list_workload_differences(first: Run, second: Run) -> Iterator[str]:
    if first.manifest.sources or second.manifest.sources:
        return
    first_workload, second_workload = first.manifest.workload, second.manifest.workload
    if first_workload.factory != second_workload.factory:
        yield _format_difference("workload", first_workload.factory, second_workload.factory)
    elif first_workload.parameters != second_workload.parameters:
        yield from _list_value_differences(first_workload.parameters, second_workload.parameters)


def _list_machine_differences(first: Run, second: Run) -> Iterator[str]:
    def facts(run: Run) -> dict[str, str | None]:
        environment = run.manifest.environment
        gpu = environment.gpu.name if environment.gpu else None
        return {"GPU": gpu, "driver": environment.driver, "torch": environment.torch}

    yield from _list_value_differences(facts(first), facts(second))


def _list_value_differences(
    values: Mapping[str, object], other: Mapping[str, object]
) -> Iterator[str]:
    """Describe facts that both runs have with different values."""
    for name, value in values.items():
        other_value = other.get(name)
        if value is not None and other_value is not None and value != other_value:
            yield _format_difference(name, value, other_value)


def _format_difference(name: str, value: object, other: object) -> str:
    return escape_control_characters(f"{name} ({value}, {other})")


def describe_steps(run: Run, recording: Recording, traced_steps: int) -> str:
    """Count the timed steps, the steps in the trace, and those behind them.

    The median of an engine can come from all its steps, instead of those before the window.
    """
    times, loop = list_recorded_times(run), run.loop
    counts = f"{format_count(len(times))} timed, {format_count(traced_steps)} traced, of "
    if loop is not None and len(times) > len(recording.step_ns):
        return counts + pluralize(loop.step_count, "step")
    return f"{counts}the first {pluralize(recording.steps, 'step')}"


def list_recording_notes(run: Run, traced_steps: int) -> tuple[str, ...]:
    """Describe the process, the recorder's effect, the end of the recording, and unused graphs.
    Empty for a run that was not recorded. ``traced_steps`` are the steps in its trace.
    """
    recording = run.recording
    if recording is None:
        return ()
    notes = (
        _describe_process(recording),
        _describe_pauses(recording, traced_steps),
        _describe_window_end(recording, traced_steps),
        _describe_cupti(recording),
        _describe_missing_end(recording),
        _describe_unused_graphs(run, recording),
        _describe_released_graphs(recording),
    )
    return tuple(note for note in notes if note is not None)


def _describe_process(recording: Recording) -> str | None:
    process = recording.process
    if process is None or process.start_method is StartMethod.PROGRAM:
        return None
    method = "" if process.start_method is None else f", started by {process.start_method}"
    parent = f" from {process.parent}" if process.parent is not None else ""
    return f"Process {process.role}{method}{parent}; pid {process.pid}."


def _describe_unused_graphs(run: Run, recording: Recording) -> str | None:
    cost = measure_unused_graphs(run, build_graph_ledgers(run))
    if cost is None:
        return None
    total = pluralize(len(recording.graphs), "graph")
    text = f"{format_count(len(cost.graphs))} of {total} were never replayed"
    if cost.saved_bytes is not None and cost.saved_ns is not None:
        return (
            f"{text}; without them and their warm-ups the program saves "
            f"{format_bytes(cost.saved_bytes)} and {format_ns(cost.saved_ns)} of start-up "
            "(memory ledger)."
        )
    text += f"; their captures took {format_ns(cost.capture_ns)}"
    if cost.pool_bytes:
        text += f" and keep {format_bytes(cost.pool_bytes)} of pool memory"
    return f"{text}."


def _describe_released_graphs(recording: Recording) -> str | None:
    evictions = find_released_graphs(recording)
    if not evictions:
        return None
    return (
        f"The program released {format_count(len(evictions))} of "
        f"{pluralize(len(recording.graphs), 'graph')} before its end, as in a cache of graphs."
    )


def _describe_pauses(recording: Recording, traced_steps: int) -> str | None:
    open_ns, close_ns = recording.window_open_ns, recording.window_close_ns
    if open_ns is None or close_ns is None:
        return None
    return (
        f"The traced window holds {pluralize(traced_steps, 'complete step')} and paused "
        f"the program for {format_ns(open_ns)} when it opened and for {format_ns(close_ns)} when "
        "it closed."
    )


def _describe_window_end(recording: Recording, traced_steps: int) -> str | None:
    reason = _WINDOW_ENDS.get(recording.window_ended_by)
    if reason is None or traced_steps >= recording.requested_window_steps:
        return None
    request_text = pluralize(recording.requested_window_steps, "requested step")
    return (
        f"The traced window closed after {format_count(traced_steps)} of {request_text} "
        f"because {reason}."
    )


def _describe_cupti(recording: Recording) -> str | None:
    if recording.cupti_attached is None:
        return None
    return f"CUPTI is still attached ({recording.cupti_attached}): {LASTING_COST}."


def _describe_missing_end(recording: Recording) -> str | None:
    if recording.reached_end is not False:
        return None
    return (
        "The recording has no end: the process was killed or left without its exit handlers. The "
        "last 100 ms of replays and steps are missing."
    )


def _get_capturing_line(graph: RecordedGraph) -> str:
    return graph.captured_at[0] if graph.captured_at else "internal torch thread"


CAPTURE_COLUMNS: Final[tuple[Column[RecordedGraph], ...]] = (
    Column("graph", lambda graph: graph.graph, TEXT, "capture"),
    Column(
        "captured at",
        _get_capturing_line,
        TEXT,
        "at",
        explain=lambda graph: " called from ".join(graph.captured_at),
        note=lambda graph: graph.problem or "",
    ),
    Column("after step", lambda graph: graph.step, COUNT, None),
    Column("nodes", lambda graph: graph.nodes, COUNT),
    Column("replays", lambda graph: graph.replays, COUNT),
    Column("replays in window", lambda graph: graph.window_replays, COUNT, "in the window"),
    Column("capture time", lambda graph: graph.capture_ns, MILLISECONDS, "duration"),
    Column(None, lambda graph: graph.problem or "", TEXT, "problem"),
)
"""Columns of the captures of a recorded program."""
