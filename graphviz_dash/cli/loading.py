"""Load experiments and runs for commands, and warn about incomplete traces."""

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
"""Seconds of loading before progress appears."""


def loaded_experiment(path: Path) -> Experiment:
    """Call :func:`load_experiment` and warn about incomplete traces on stderr."""
    with progress_shown(path.name):
        experiment = load_experiment(path)
    for run in experiment.runs:
        _tell(run)
    return experiment


def executor_options(command: Callable[P, T]) -> Callable[P, T]:
    """Add --scheduler and --workers, which control the reading of many files."""
    scheduler = click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Dask cluster that reads foreign files (tcp://host:8786). It must have access to the"
        " folders too.",
    )
    workers = click.option(
        "--workers",
        type=click.IntRange(1),
        metavar="N",
        help="Number of local processes for many files (default: one per CPU).",
    )
    return scheduler(workers(command))


@contextmanager
def experiment_at(text: str, scheduler: str | None, workers: int | None) -> Iterator[Path]:
    """Yield the folder of the experiment ``text``. A folder of bundles is used as it is. An address
    is copied and a folder of foreign files imported, both into a temporary folder.

    Raises:
        InputError: nothing there yields a run.
    """
    local = Path(text)
    if not is_address(text) and (not local.is_dir() or find_experiments(local)):
        yield local
        return
    locations = find_locations([text])
    with tempfile.TemporaryDirectory(prefix="graphviz-dash-compare-") as scratch:
        folder = Path(scratch) / Location(text).name
        for location in locations:
            if location.bundle:
                fetch(location.address, folder / location.name, folder=True)
        if not any(location.bundle for location in locations):
            for result in import_many(locations, folder, lambda: executor_for(scheduler, workers)):
                if isinstance(result, NotImported):
                    message = f"not imported: {', '.join(result.files)}: {result.reason}"
                    click.echo(printable(message), err=True)
        yield folder


def loaded_run(path: Path) -> Run:
    """Call :func:`load_run` and warn about an incomplete trace on stderr."""
    with progress_shown(path.name):
        run = load_run(path)
    _tell(run)
    return run


def loaded_trace(path: Path) -> Trace:
    """Call :func:`open_trace` with the user's cache and warn about missing parts on stderr."""
    with progress_shown(path.name):
        trace = open_trace(path, cache=default_cache())
    for problem in trace.info.incomplete:
        click.echo(printable(f"Warning: {path.name}: {problem.text}"), err=True)
    return trace


@contextmanager
def progress_shown(what: str) -> Iterator[None]:
    """Show the reading progress of ``what`` as a bar on stderr; nothing if stderr is no
    terminal."""
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
    """Progress bar that appears only during long reads and disappears at the end."""

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
