"""An experiment in words: a line about it, and notes about its recordings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from graphviz_dash.errors import printable
from graphviz_dash.model.recording import Recording, WindowEnd
from graphviz_dash.model.run import Experiment, Run
from graphviz_dash.units import counted, format_ns

LASTING_COST: Final = "later graph launches cost 1.7 to 35 times more (0.2 to 0.6 µs per node)"
"""Measured on an H100 with driver 580 and torch 2.11: the launch calls of nine programs."""


def about(experiment: Experiment) -> str:
    """What whoever made it says of ``experiment``; else what its manifests tell."""
    if experiment.about is not None:
        return experiment.about
    runs = experiment.runs
    names = dict.fromkeys(run.manifest.workload.name for run in runs)
    subject = ", ".join(names)
    if all(run.manifest.sources for run in runs):
        return f"{subject}: {counted(len(runs), 'run')} imported from files of other programs"
    if all(run.mode.is_recorded for run in runs):
        return f"The program {subject} as it is, recorded in {counted(len(runs), 'run')}"
    modes = ", ".join(dict.fromkeys(run.mode.value for run in runs))
    ranks = {run.manifest.rank_of_several for run in runs} - {None}
    by_rank = f" on {counted(len(ranks), 'rank')}" if ranks else ""
    return f"The workload {subject}{by_rank}: {modes}"


def difference_text(first: Run, second: Run) -> str:
    """In what two runs of any experiments differ besides their graphs, which then is part of every
    difference between them; empty where that is nothing. What is not known of one of them, as of
    imported traces, is left out."""
    differences = [*_different_work(first, second), *_different_machines(first, second)]
    if not differences:
        return ""
    return (
        f"Besides graphs the two runs differ in {'; '.join(differences)}. What follows is of all "
        "of that together."
    )


def _different_work(first: Run, second: Run) -> Iterator[str]:
    if first.manifest.sources or second.manifest.sources:
        return
    own, other = first.manifest.workload, second.manifest.workload
    if own.factory != other.factory:
        yield _told("workload", own.factory, other.factory)
    elif own.parameters != other.parameters:
        yield from _different(own.parameters, other.parameters)


def _different_machines(first: Run, second: Run) -> Iterator[str]:
    def facts(run: Run) -> dict[str, str | None]:
        environment = run.manifest.environment
        gpu = environment.gpu.name if environment.gpu else None
        return {"GPU": gpu, "driver": environment.driver, "torch": environment.torch}

    yield from _different(facts(first), facts(second))


def _different(own: Mapping[str, object], other: Mapping[str, object]) -> Iterator[str]:
    """What both of them have, and otherwise."""
    for name, value in own.items():
        beside = other.get(name)
        if value is not None and beside is not None and value != beside:
            yield _told(name, value, beside)


def _told(what: str, own: object, other: object) -> str:
    return printable(f"{what} ({own}, {other})")


def recording_notes(recording: Recording) -> tuple[str, ...]:
    """Sentences about the recorder's effect on the program and about its end."""
    notes = (_pauses(recording), _limit(recording), _attached(recording), _end(recording))
    return tuple(note for note in notes if note is not None)


def _pauses(recording: Recording) -> str | None:
    opened, closed = recording.window_open_ns, recording.window_close_ns
    if opened is None or closed is None:
        return None
    return (
        f"The traced window paused the program for {format_ns(opened)} when it opened and for "
        f"{format_ns(closed)} when it closed."
    )


def _limit(recording: Recording) -> str | None:
    if recording.window_ended_by is not WindowEnd.EVENTS:
        return None
    return "The traced window closed early because it reached its limit of events."


def _attached(recording: Recording) -> str | None:
    if recording.cupti_attached is None:
        return None
    return f"CUPTI is still attached ({recording.cupti_attached}): {LASTING_COST}."


def _end(recording: Recording) -> str | None:
    if recording.ended is not False:
        return None
    return (
        "The recording has no end: the process was killed or left without its exit handlers. The "
        "last 100 ms of replays and steps are missing."
    )
