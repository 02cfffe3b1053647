"""``graphviz-dash export``: the files of a comparison: kernels, equation, pairs and a report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
import polars as pl

from graphviz_dash.analysis.comparison.compare import compare
from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.analysis.metrics.kernel_table import kernel_table
from graphviz_dash.app.report.report import write_report
from graphviz_dash.app.report.static_charts import static_charts
from graphviz_dash.cli.exporting.files import output_option, print_file
from graphviz_dash.cli.loading import loaded_experiment
from graphviz_dash.exports.equation import equation_frame, pair_frame
from graphviz_dash.exports.tables import kernel_frame, write_table
from graphviz_dash.units import format_bytes

_BASELINE = click.option(
    "--baseline", help="Mode or name of the run that the others are held against [default: eager]."
)


@click.command(short_help="The kernels of all runs as a table.")
@click.argument("experiment", type=click.Path(path_type=Path))
@output_option
@click.option("--baseline", help="Mode or name of the run that changes refer to [default: eager].")
def kernels(experiment: Path, file: Path, baseline: str | None) -> None:
    """Write the kernels of an EXPERIMENT's traced steps as .csv or .parquet."""
    loaded = loaded_experiment(experiment)
    frame = kernel_frame(kernel_table(loaded, compare(loaded, baseline).baseline))
    summary = write_table(frame, file)
    print_file(file, f"{summary.rows:,} rows, {len(summary.columns)} columns")


@click.command(short_help="Where runs save time, by module, as a table.")
@click.argument("experiment", type=click.Path(path_type=Path))
@output_option
@_BASELINE
def equation(experiment: Path, file: Path, baseline: str | None) -> None:
    """Write where the runs of an EXPERIMENT save time, by module and operator, as .csv or .parquet.

    EXPERIMENT is a folder whose direct children are run bundles.
    """
    _write_comparison(experiment, file, baseline, equation_frame)


@click.command(short_help="Which work of two runs is the same, as a table.")
@click.argument("experiment", type=click.Path(path_type=Path))
@output_option
@_BASELINE
def pairs(experiment: Path, file: Path, baseline: str | None) -> None:
    """Write which work of the baseline is which of each run of an EXPERIMENT, as .csv or .parquet.

    EXPERIMENT is a folder whose direct children are run bundles.
    """
    _write_comparison(experiment, file, baseline, pair_frame)


@click.command(short_help="A report as one HTML file, to send or print.")
@click.argument("experiment", type=click.Path(path_type=Path))
@output_option
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
    print_file(file, f"{', '.join(drawn.pictures) or 'no picture'}; {format_bytes(size)}")


def _write_comparison(
    experiment: Path,
    file: Path,
    baseline: str | None,
    build: Callable[[Comparison], pl.DataFrame],
) -> None:
    summary = write_table(build(compare(loaded_experiment(experiment), baseline)), file)
    print_file(file, f"{summary.rows:,} rows, {len(summary.columns)} columns")
