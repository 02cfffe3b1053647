"""Experiments and runs for commands: loaded, and what is missing from their traces told."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from graphviz_dash.errors import printable

if TYPE_CHECKING:
    from graphviz_dash.model.run import Experiment, Run


def loaded_experiment(path: Path) -> Experiment:
    """:func:`load_experiment`; stderr says which trace is not whole."""
    from graphviz_dash.ingest.load import load_experiment

    experiment = load_experiment(path)
    for run in experiment.runs:
        _tell(run)
    return experiment


def loaded_run(path: Path) -> Run:
    """:func:`load_run`; stderr says which trace is not whole."""
    from graphviz_dash.ingest.load import load_run

    run = load_run(path)
    _tell(run)
    return run


def _tell(run: Run) -> None:
    for problem in run.incomplete:
        click.echo(printable(f"Warning: {run.name}: {problem.text}"), err=True)
