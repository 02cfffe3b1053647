"""``graphviz-dash validate``: checks bundles and recordings of launch costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import click

from graphviz_dash.bundle.launch import find_launches, read_launch
from graphviz_dash.bundle.parts import parse_capture_number, parse_graph_id
from graphviz_dash.bundle.read import is_bundle
from graphviz_dash.cli.progress_bar import show_progress
from graphviz_dash.cli.text.output import print_text
from graphviz_dash.errors import GraphvizDashError, InputError
from graphviz_dash.exports.documents.values import display_path
from graphviz_dash.ingest.load import list_bundles, load_run, search_experiments
from graphviz_dash.model.run import FileEntry, FileRole, Run
from graphviz_dash.model.trace import Trace
from graphviz_dash.units import format_bytes, format_count, pluralize


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
def validate(path: Path) -> None:
    """Check a run bundle, an experiment, a recording of launch costs, or all of them under PATH.

    Checks each file's size and sha256, the type of every field, and that traces are readable.
    Prints the checked files. The exit code is 2 if a bundle violates
    docs/reference/bundle-format.md or a recording violates docs/reference/launch-format.md.
    """
    bundles, launches = _find_recordings(path)
    if not bundles and not launches:
        expected_input = "a run bundle, a recording of launch costs, or a folder with some of them"
        raise InputError(path, "neither was found", expected_input)
    failures = _check(bundles, _describe_bundle, "bundles are")
    if failures + _check(launches, _describe_launch, "recordings of launch costs are"):
        raise click.exceptions.Exit(2)


def _find_recordings(path: Path) -> tuple[list[Path], list[Path]]:
    """Find the bundles and recordings of launch costs at or under ``path``."""
    if is_bundle(path):
        return [path], []
    if path.is_file():
        return [], [path]
    search = search_experiments(path)
    for problem in search.problems:
        click.echo(f"Skipped: {problem}.", err=True)
    bundles = [bundle for folder in search.experiments for bundle in list_bundles(folder)]
    return bundles, find_launches(path)


def _check(files: Sequence[Path], describe: Callable[[Path], Iterable[str]], summary: str) -> int:
    """Print a description of each file and return the number of unreadable ones."""
    failures = 0
    for file in files:
        try:
            for line in describe(file):
                print_text(line)
        except GraphvizDashError as error:
            failures += 1
            print_text(f"FAILED  {display_path(file)}")
            click.echo(f"Error: {error}", err=True)
    if files:
        click.echo(f"{len(files) - failures} of {len(files)} {summary} complete and readable")
    return failures


def _describe_launch(path: Path) -> Iterator[str]:
    recording = read_launch(path)
    samples = sum(len(values) for series in recording.series for values in series.samples.values())
    state = "complete" if recording.complete else "interrupted"
    yield (
        f"ok      {display_path(path)}: launch costs, format version {recording.version}, "
        f"{state}, {pluralize(len(recording.series), 'graph')}, "
        f"{pluralize(samples, 'sample')}"
    )


def _describe_bundle(path: Path) -> Iterator[str]:
    with show_progress(path.name):
        run = load_run(path)
    manifest = run.manifest
    yield (
        f"ok      {display_path(run.path)}: format version {manifest.version}, {manifest.status}, "
        f"{manifest.workload.name} in mode {manifest.mode.value}"
    )
    for entry in manifest.files:
        yield (
            f"        {entry.path}: {format_bytes(entry.bytes)}, sha256 matches, "
            f"{_describe_contents(run, entry)}"
        )
    for problem in run.problems:
        yield f"        {problem.text}"


def _describe_contents(run: Run, entry: FileEntry) -> str:
    match entry.role:
        case FileRole.CLEAN if run.clean is not None:
            return (
                f"{format_count(len(run.clean.steps))} synchronised and "
                f"{format_count(len(run.clean.back_to_back_ns))} back-to-back iterations"
            )
        case FileRole.GRAPH:
            for graph in run.graphs:
                if graph.id == parse_graph_id(entry.path):
                    nodes, edges = len(graph.nodes), len(graph.edges)
                    return f"{pluralize(nodes, 'node')}, {pluralize(edges, 'edge')}"
        case FileRole.OBSERVERS if run.observers is not None:
            series = run.observers.series
            observers = {observed.observer for observed in series}
            return f"{len(series)} series of {len(observers)} observers"
        case FileRole.CAPTURE_TRACE if run.capture_traces:
            return _format_trace(run.capture_traces[parse_capture_number(entry.path)])
        case FileRole.REPLAY_TRACE if run.replay_trace is not None:
            return _format_trace(run.replay_trace)
        case _:
            pass
    return "readable"


def _format_trace(trace: Trace) -> str:
    return (
        f"{format_count(trace.info.events)} events, "
        f"{format_count(len(trace.gpu))} of them on the GPU"
    )
