"""What an experiment is, on a line."""

from __future__ import annotations

from graphviz_dash.model.run import Experiment
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
    ranks = {run.manifest.rank for run in runs if run.manifest.rank is not None}
    by_rank = f" on {counted(len(ranks), 'rank')}" if ranks else ""
    return f"The workload {subject}{by_rank}: {modes}"
