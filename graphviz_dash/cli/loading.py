"""Experiments and runs for commands: loaded, and what is missing from their traces told."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from graphviz_dash.errors import printable
from graphviz_dash.importers.locations import Location, fetch, find_locations, is_address
from graphviz_dash.importers.many import NotImported, import_many
from graphviz_dash.importers.tasks import executor_for
from graphviz_dash.ingest.cache import default_cache, open_trace
from graphviz_dash.ingest.load import find_experiments, load_experiment, load_run
from graphviz_dash.model.run import Experiment, Run
from graphviz_dash.model.trace import Trace
from graphviz_dash.progress import watched

P = ParamSpec("P")
T = TypeVar("T")

_PATIENCE: Final = 0.5
"""Seconds of loading that pass without a word."""


def loaded_experiment(path: Path) -> Experiment:
    """:func:`load_experiment`; stderr says which trace is not whole."""
    with progress_shown(path.name):
        experiment = load_experiment(path)
    for run in experiment.runs:
        _tell(run)
    return experiment


def executor_options(command: Callable[P, T]) -> Callable[P, T]:
    """Adds --scheduler and --workers, which say who reads many files at once."""
    scheduler = click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Read foreign files on the Dask cluster at ADDRESS (tcp://host:8786), which must see"
        " the folders too.",
    )
    workers = click.option(
        "--workers",
        type=click.IntRange(1),
        metavar="N",
        help="Processes of this machine for many files (default: one for each CPU).",
    )
    return scheduler(workers(command))


@contextmanager
def experiment_at(text: str, scheduler: str | None, workers: int | None) -> Iterator[Path]:
    """The folder of the experiment that ``text`` names: a folder of bundles as it is; at an address
    a copy of it, and of a folder of foreign files what importing them makes, both until the end.

    Raises:
        InputError: nothing there that makes a run.
    """
    here = Path(text)
    if not is_address(text) and (not here.is_dir() or find_experiments(here)):
        yield here
        return
    places = find_locations([text])
    with tempfile.TemporaryDirectory(prefix="graphviz-dash-compare-") as scratch:
        folder = Path(scratch) / Location(text).name
        for location in places:
            if location.bundle:
                fetch(location.address, folder / location.name, folder=True)
        if not any(location.bundle for location in places):
            for result in import_many(places, folder, lambda: executor_for(scheduler, workers)):
                if isinstance(result, NotImported):
                    said = f"not imported: {', '.join(result.files)}: {result.reason}"
                    click.echo(printable(said), err=True)
        yield folder


def loaded_run(path: Path) -> Run:
    """:func:`load_run`; stderr says which trace is not whole."""
    with progress_shown(path.name):
        run = load_run(path)
    _tell(run)
    return run


def loaded_trace(path: Path) -> Trace:
    """:func:`open_trace` with the user's cache; stderr says what is missing of one not whole."""
    with progress_shown(path.name):
        trace = open_trace(path, cache=default_cache())
    for problem in trace.info.incomplete:
        click.echo(printable(f"Warning: {path.name}: {problem.text}"), err=True)
    return trace


@contextmanager
def progress_shown(what: str) -> Iterator[None]:
    """How far ``what``, which is read inside, has come and how long it will take still, as a bar on
    stderr while that lasts; nothing where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield
        return
    bar = _Bar(printable(what))
    try:
        with watched(bar.tell):
            yield
    finally:
        bar.close()


class _Bar:
    """A bar that comes when reading takes its time, and is gone when all is read."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._begun = time.monotonic()
        self._progress: Progress | None = None

    def tell(self, share: float) -> None:
        if self._progress is None:
            if time.monotonic() - self._begun < _PATIENCE:
                return
            self._progress = self._made()
            self._task = self._progress.add_task(self._what, total=1.0)
        self._progress.update(self._task, completed=share)

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()

    @staticmethod
    def _made() -> Progress:
        progress = Progress(
            TextColumn("Reading {task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        progress.start()
        return progress


def _tell(run: Run) -> None:
    for problem in run.incomplete:
        click.echo(printable(f"Warning: {run.name}: {problem.text}"), err=True)
