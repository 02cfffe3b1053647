"""What an experiment is, on a line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from graphviz_dash.errors import printable
from graphviz_dash.model.run import Experiment, Run
from graphviz_dash.units import counted


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
