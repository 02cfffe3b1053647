"""``graphviz-dash validate``: is a bundle, or a recording of launch costs, whole and readable?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from graphviz_dash.bundle.launch import find_launches, read_launch
from graphviz_dash.bundle.parts import capture_number
from graphviz_dash.bundle.read import is_bundle
from graphviz_dash.cli.light import bundles_of
from graphviz_dash.cli.loading import progress_shown
from graphviz_dash.errors import GraphvizDashError, InputError, printable
from graphviz_dash.exports.documents.values import shown
from graphviz_dash.ingest.load import find_experiments, load_run
from graphviz_dash.model.run import FileEntry, FileRole, Run
from graphviz_dash.model.trace import Trace
from graphviz_dash.units import counted, format_bytes, format_count


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
def validate(path: Path) -> None:
    """Check a run bundle, an experiment, a recording of launch costs, or all of them under PATH.

    Each file's size and sha256, the types of every field, and that the traces can be read. Prints
    what was checked; the exit code is 2 when a bundle is not as docs/reference/bundle-format.md
    says, or a recording not as docs/launch-format.md does.
    """
    bundles, launches = _under(path)
    if not bundles and not launches:
        expected = "a run bundle, a recording of launch costs, or a folder that holds some"
        raise InputError(path, "neither in it", expected)
    failed = _check_bundles(bundles) + _check_launches(launches)
    if failed:
        raise click.exceptions.Exit(2)


def _under(path: Path) -> tuple[list[Path], list[Path]]:
    """The bundles, and the recordings of launch costs, at or under ``path``."""
    if is_bundle(path):
        return [path], []
    if path.is_file():
        return [], [path]
    bundles = [bundle for folder in find_experiments(path) for bundle in bundles_of(folder)]
    return bundles, find_launches(path)


def _check_bundles(bundles: Sequence[Path]) -> int:
    """Prints what each bundle is; how many are not whole."""
    failed = 0
    for bundle in bundles:
        try:
            with progress_shown(bundle.name):
                run = load_run(bundle)
        except GraphvizDashError as error:
            failed += 1
            click.echo(printable(f"FAILED  {shown(bundle)}"))
            click.echo(f"Error: {error}", err=True)
            continue
        _print(run)
    if bundles:
        click.echo(f"{len(bundles) - failed} of {len(bundles)} bundles are whole and readable")
    return failed


def _check_launches(launches: Sequence[Path]) -> int:
    """Prints what each recording of launch costs is; how many are not whole."""
    failed = 0
    for path in launches:
        try:
            recording = read_launch(path)
        except GraphvizDashError as error:
            failed += 1
            click.echo(printable(f"FAILED  {shown(path)}"))
            click.echo(f"Error: {error}", err=True)
            continue
        samples = sum(len(own) for series in recording.series for own in series.samples.values())
        state = "complete" if recording.complete else "interrupted"
        click.echo(
            printable(
                f"ok      {shown(path)}: launch costs, format version {recording.version}, "
                f"{state}, {counted(len(recording.series), 'graph')}, {counted(samples, 'sample')}"
            )
        )
    if launches:
        whole = f"{len(launches) - failed} of {len(launches)}"
        click.echo(f"{whole} recordings of launch costs are whole and readable")
    return failed


def _print(run: Run) -> None:
    manifest = run.manifest
    click.echo(
        printable(
            f"ok      {shown(run.path)}: format version {manifest.version}, {manifest.status}, "
            f"{manifest.workload.name} in mode {manifest.mode.value}"
        )
    )
    for entry in manifest.files:
        click.echo(
            printable(
                f"        {entry.path}: {format_bytes(entry.bytes)}, sha256 agrees, "
                f"{_contents(run, entry)}"
            )
        )
    for problem in run.problems:
        click.echo(printable(f"        {problem.text}"))


def _contents(run: Run, entry: FileEntry) -> str:
    match entry.role:
        case FileRole.CLEAN if run.clean is not None:
            return (
                f"{format_count(len(run.clean.steps))} synchronised and "
                f"{format_count(len(run.clean.back_to_back_ns))} back-to-back iterations"
            )
        case FileRole.GRAPH:
            for graph in run.graphs:
                if entry.path == f"graphs/{graph.id}.json":
                    nodes, edges = len(graph.nodes), len(graph.edges)
                    return f"{counted(nodes, 'node')}, {counted(edges, 'edge')}"
        case FileRole.OBSERVERS if run.observers is not None:
            series = run.observers.observed
            observers = {observed.observer for observed in series}
            return f"{len(series)} series of {len(observers)} observers"
        case FileRole.CAPTURE_TRACE if run.captures:
            return _trace_text(run.captures[capture_number(entry.path)])
        case FileRole.REPLAY_TRACE if run.replay_trace is not None:
            return _trace_text(run.replay_trace)
        case _:
            pass
    return "readable"


def _trace_text(trace: Trace) -> str:
    return (
        f"{format_count(trace.info.events)} events, "
        f"{format_count(len(trace.gpu))} of them on the GPU"
    )
