"""``graphviz-dash export``: files for other tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
import polars as pl

from graphviz_dash.analysis.comparison.compare import compare
from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.analysis.metrics.kernel_table import kernel_table
from graphviz_dash.analysis.nodes.measured_graph import measure_graph, node_timing_replays
from graphviz_dash.analysis.nodes.whole_graph import WholeGraph, whole_graph
from graphviz_dash.charts.static.report import static_charts
from graphviz_dash.cli.loading import loaded_experiment, loaded_run
from graphviz_dash.errors import GraphvizDashError, InputError, printable
from graphviz_dash.exports.dot import export_dot
from graphviz_dash.exports.equation import equation_frame, pair_frame
from graphviz_dash.exports.files import ExportSummary
from graphviz_dash.exports.report import write_report
from graphviz_dash.exports.tables import kernel_frame, node_frame, write_table
from graphviz_dash.exports.trace.chrome import export_chrome
from graphviz_dash.exports.trace.perfetto import export_perfetto
from graphviz_dash.exports.trace.perfetto_check import TraceCheck, check_trace
from graphviz_dash.model.run import Run
from graphviz_dash.units import counted, format_bytes, format_count

_JSON_SUFFIXES = (".json", ".json.gz")


@click.group()
def export() -> None:
    """Write files that other tools read."""


@export.command()
@click.argument("experiment", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    "file",
    required=True,
    type=click.Path(path_type=Path),
    help="File to write; compressed if its name ends in .gz.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["proto", "json"]),
    help="Native trace or Chrome JSON [default: json for .json and .json.gz, else proto].",
)
@click.option("--check", is_flag=True, help="Read the native trace back and check it.")
def perfetto(experiment: Path, file: Path, form: str | None, check: bool) -> None:
    """Write the runs of an EXPERIMENT side by side as a trace for ui.perfetto.dev.

    EXPERIMENT is a folder whose direct children are run bundles.
    """
    is_json = form == "json" or (form is None and file.name.lower().endswith(_JSON_SUFFIXES))
    if check and is_json:
        raise click.UsageError("--check reads native traces, not JSON")
    loaded = loaded_experiment(experiment)
    if is_json:
        _tell(export_chrome(loaded, file))
        return
    summary = export_perfetto(loaded, file)
    if check:
        _tell_check(summary, check_trace(file))
    _tell(summary)


_OUTPUT = click.option(
    "-o",
    "--output",
    "file",
    required=True,
    type=click.Path(path_type=Path),
    help="File to write.",
)
_GRAPH = click.option("--graph", "graph_id", help="Id of the graph [default: the run's first].")


@export.command()
@click.argument("run", type=click.Path(path_type=Path))
@_OUTPUT
@_GRAPH
def dot(run: Path, file: Path, graph_id: str | None) -> None:
    """Write a captured graph of a RUN in the DOT language, what its nodes hold as clusters."""
    whole = _whole(loaded_run(run), graph_id)
    table = whole.table
    export_dot(whole, f"{run.name} {table.graph.id}", file)
    _tell_file(
        file, f"{counted(len(table.rows), 'node')}, {counted(len(table.graph.edges), 'edge')}"
    )


@export.command()
@click.argument("run", type=click.Path(path_type=Path))
@_OUTPUT
@_GRAPH
def nodes(run: Path, file: Path, graph_id: str | None) -> None:
    """Write the nodes of a captured graph of a RUN, and of what it holds, as .csv or .parquet."""
    loaded = loaded_run(run)
    whole = _whole(loaded, graph_id)
    graph = next(captured for captured in loaded.graphs if captured.id == whole.table.graph.id)
    measured = measure_graph(graph, loaded.graphs, node_timing_replays(loaded))
    summary = write_table(node_frame(whole, measured), file)
    _tell_file(file, f"{summary.rows:,} nodes, {len(summary.columns)} columns")


@export.command()
@click.argument("experiment", type=click.Path(path_type=Path))
@_OUTPUT
@click.option("--baseline", help="Mode or name of the run that changes refer to [default: eager].")
def kernels(experiment: Path, file: Path, baseline: str | None) -> None:
    """Write the kernels of an EXPERIMENT's traced steps as .csv or .parquet."""
    loaded = loaded_experiment(experiment)
    frame = kernel_frame(kernel_table(loaded, compare(loaded, baseline).baseline))
    summary = write_table(frame, file)
    _tell_file(file, f"{summary.rows:,} rows, {len(summary.columns)} columns")


_BASELINE = click.option(
    "--baseline", help="Mode or name of the run that the others are held against [default: eager]."
)


@export.command()
@click.argument("experiment", type=click.Path(path_type=Path))
@_OUTPUT
@_BASELINE
def equation(experiment: Path, file: Path, baseline: str | None) -> None:
    """Write where the runs of an EXPERIMENT save time, by module and operator, as .csv or .parquet.

    EXPERIMENT is a folder whose direct children are run bundles.
    """
    _write_comparison(experiment, file, baseline, equation_frame)


@export.command()
@click.argument("experiment", type=click.Path(path_type=Path))
@_OUTPUT
@_BASELINE
def pairs(experiment: Path, file: Path, baseline: str | None) -> None:
    """Write which work of the baseline is which of each run of an EXPERIMENT, as .csv or .parquet.

    EXPERIMENT is a folder whose direct children are run bundles.
    """
    _write_comparison(experiment, file, baseline, pair_frame)


@export.command()
@click.argument("experiment", type=click.Path(path_type=Path))
@_OUTPUT
@_BASELINE
def html(experiment: Path, file: Path, baseline: str | None) -> None:
    """Write a report about an EXPERIMENT as one HTML file that needs no network, to send or print.

    EXPERIMENT is a folder whose direct children are run bundles.
    """
    loaded = loaded_experiment(experiment)
    result = compare(loaded, baseline)
    drawn = static_charts(result)
    kernels = kernel_table(loaded, result.baseline)
    size = write_report(result, kernels, drawn.pictures, (drawn.light, drawn.dark), file)
    _tell_file(file, f"{', '.join(drawn.pictures) or 'no picture'}; {format_bytes(size)}")


def _write_comparison(
    experiment: Path,
    file: Path,
    baseline: str | None,
    build: Callable[[Comparison], pl.DataFrame],
) -> None:
    summary = write_table(build(compare(loaded_experiment(experiment), baseline)), file)
    _tell_file(file, f"{summary.rows:,} rows, {len(summary.columns)} columns")


def _whole(run: Run, graph_id: str | None) -> WholeGraph:
    graph_ids = [graph.id for graph in run.graphs]
    if not graph_ids:
        raise InputError(run.path, "a run without a captured graph", "a run of a graphed mode")
    if graph_id is not None and graph_id not in graph_ids:
        raise InputError(run.path, f"no graph {graph_id!r}", f"one of {', '.join(graph_ids)}")
    return whole_graph(run, graph_id or graph_ids[0])


def _tell_file(file: Path, held: str) -> None:
    click.echo(held, err=True)
    click.echo(printable(str(file)))


def _tell(summary: ExportSummary) -> None:
    """The path on stdout, for scripts; what is in the file on stderr."""
    counts = {
        "tracks": summary.tracks,
        "slices": summary.slices,
        "flows": summary.flows,
        "counter values": summary.counters,
    }
    held = ", ".join(f"{format_count(count)} {what}" for what, count in counts.items())
    click.echo(
        f"{', '.join(summary.runs)}: {held}; {format_bytes(summary.bytes)}",
        err=True,
    )
    if summary.overflowed:
        click.echo(
            f"{format_count(summary.overflowed)} slices overlap others and have lanes of their own",
            err=True,
        )
    for name, reason in summary.skipped:
        click.echo(f"left out {name}: {reason}", err=True)
    click.echo(printable(str(summary.path)))


def _tell_check(summary: ExportSummary, check: TraceCheck) -> None:
    problems = list(check.problems)
    for what, written, read in (
        ("tracks", summary.tracks, check.tracks),
        ("slices", summary.slices, check.slices),
        ("flows", summary.flows, check.flows),
        ("counter values", summary.counters, check.counters),
    ):
        if written != read:
            problems.append(f"{written:,} {what} were written, {read:,} are in the file")
    if problems:
        more = f" (and {check.more_problems:,} more)" if check.more_problems else ""
        raise GraphvizDashError(f"{summary.path}: {'; '.join(problems)}{more}")
    click.echo(f"checked: {check.packets:,} packets hold together", err=True)
