"""Experiments without their traces, for fast listings."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.load import list_bundles, load_run
from graphviz_dash.model.run import ExecutionMode, Experiment, Run


class LightExperiment(Struct, frozen=True):
    """Experiment without traces, with its unreadable bundles."""

    experiment: Experiment
    unreadable: tuple[tuple[Path, str], ...]


def load_light_experiment(folder: Path) -> LightExperiment:
    """Load the experiment in ``folder``; bundles are checked, traces are not parsed."""
    runs: list[Run] = []
    unreadable: list[tuple[Path, str]] = []
    for path in list_bundles(folder):
        try:
            runs.append(load_run(path, traces=False))
        except InputError as error:
            unreadable.append((path, str(error)))
    modes = list(ExecutionMode)
    runs.sort(key=lambda run: (modes.index(run.mode), run.manifest.rank or 0, run.name))
    return LightExperiment(Experiment(folder, tuple(runs)), tuple(unreadable))
