"""Load experiments and runs for commands, and warn about incomplete traces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

import click

from graphviz_dash.bundle.staging import create_scratch_folder
from graphviz_dash.cli.progress_bar import show_progress
from graphviz_dash.cli.text.output import print_text
from graphviz_dash.errors import InputError
from graphviz_dash.importers.locations import (
    FILE_SCHEME,
    Location,
    fetch,
    find_locations,
    is_address,
)
from graphviz_dash.importers.many import SkippedFiles, import_batch
from graphviz_dash.importers.tasks import create_executor
from graphviz_dash.ingest.cache import get_default_cache, open_trace
from graphviz_dash.ingest.load import find_experiments, load_experiment, load_run
from graphviz_dash.model.run import Experiment, Run
from graphviz_dash.model.trace import Trace

P = ParamSpec("P")
T = TypeVar("T")


def open_experiment(path: Path) -> Experiment:
    """Call :func:`load_experiment` and warn about incomplete traces on stderr."""
    with show_progress(path.name):
        experiment = load_experiment(path)
    for run in experiment.runs:
        _warn_incomplete(run)
    return experiment


def add_executor_options(command: Callable[P, T]) -> Callable[P, T]:
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
def resolve_experiment(text: str, scheduler: str | None, workers: int | None) -> Iterator[Path]:
    """Yield the folder of the experiment ``text``. An address is copied and a folder of foreign
    files imported, into a temporary folder.

    Raises:
        InputError: nothing there yields a run.
    """
    local = Path(text.removeprefix(FILE_SCHEME))
    if not is_address(text) and (not local.is_dir() or find_experiments(local)):
        yield local
        return
    locations = find_locations([text])
    with create_scratch_folder() as scratch:
        folder = scratch / Location(text).name
        for location in locations:
            if location.is_bundle:
                fetch(location.address, folder / location.name, folder=True)
        if not any(location.is_bundle for location in locations):
            for result in import_batch(
                locations, folder, lambda: create_executor(scheduler, workers)
            ):
                if isinstance(result, SkippedFiles):
                    message = f"not imported: {', '.join(result.files)}: {result.reason}"
                    print_text(message, err=True)
        if not folder.is_dir():
            raise InputError(text, "no run", "a folder of run bundles or of traces of other tools")
        yield folder


def open_run(path: Path) -> Run:
    """Call :func:`load_run` and warn about an incomplete trace on stderr."""
    with show_progress(path.name):
        run = load_run(path)
    _warn_incomplete(run)
    return run


def open_run_trace(path: Path) -> Trace:
    """Call :func:`open_trace` with the user's cache and warn about missing parts."""
    with show_progress(path.name):
        trace = open_trace(path, cache=get_default_cache())
    for problem in trace.info.completeness_problems:
        print_text(f"Warning: {path.name}: {problem.text}", err=True)
    return trace


def _warn_incomplete(run: Run) -> None:
    for problem in run.completeness_problems:
        print_text(f"Warning: {run.name}: {problem.text}", err=True)
