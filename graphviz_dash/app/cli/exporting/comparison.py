"""``graphviz-dash export``: kernels, equation, pairs and report of a comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import click
import polars as pl

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.analysis.metrics.kernel_table import build_kernel_table
from graphviz_dash.app.report.report import write_report
from graphviz_dash.app.report.static_charts import draw_charts
from graphviz_dash.cli.exporting.files import OUTPUT_OPTION, print_file
from graphviz_dash.cli.loading import open_experiment
from graphviz_dash.cli.options import BASELINE_OPTION
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.exports.equation import build_equation_frame, build_pair_frame
from graphviz_dash.exports.tables import build_kernel_frame, write_table
from graphviz_dash.model.absence import Missing
from graphviz_dash.units import format_bytes


@click.command(short_help="Kernels of all runs as a table.")
@click.argument("experiment", type=click.Path(path_type=Path))
@OUTPUT_OPTION
@BASELINE_OPTION
def kernels(experiment: Path, file: Path, baseline: str | None) -> None:
    """Write the kernels of an EXPERIMENT's traced steps as .csv or .parquet."""
    loaded_experiment = open_experiment(experiment)
    table = build_kernel_table(
        loaded_experiment, compare_runs(loaded_experiment, baseline).baseline
    )
    _write_rows(build_kernel_frame(table), file, table.missing_reasons)


@click.command(short_help="Time savings by module and operator as a table.")
@click.argument("experiment", type=click.Path(path_type=Path))
@OUTPUT_OPTION
@BASELINE_OPTION
def equation(experiment: Path, file: Path, baseline: str | None) -> None:
    """Write the time savings of an EXPERIMENT's runs, by module and operator, as .csv or .parquet.

    EXPERIMENT is a folder whose direct children are run bundles.
    """
    _write_comparison(experiment, file, baseline, build_equation_frame)


@click.command(short_help="Matched work of two runs as a table.")
@click.argument("experiment", type=click.Path(path_type=Path))
@OUTPUT_OPTION
@BASELINE_OPTION
def pairs(experiment: Path, file: Path, baseline: str | None) -> None:
    """Write the matches between the baseline's work and each run of an EXPERIMENT, as .csv or
    .parquet.

    EXPERIMENT is a folder whose direct children are run bundles.
    """
    _write_comparison(experiment, file, baseline, build_pair_frame)


@click.command(short_help="Report as one HTML file, to send or print.")
@click.argument("experiment", type=click.Path(path_type=Path))
@OUTPUT_OPTION
@BASELINE_OPTION
def html(experiment: Path, file: Path, baseline: str | None) -> None:
    """Write a report on an EXPERIMENT as one self-contained HTML file, to send or print.

    EXPERIMENT is a folder whose direct children are run bundles.
    """
    loaded_experiment = open_experiment(experiment)
    result = compare_runs(loaded_experiment, baseline)
    charts = draw_charts(result)
    kernels = build_kernel_table(loaded_experiment, result.baseline)
    size = write_report(result, kernels, charts.pictures, (charts.light, charts.dark), file)
    print_file(file, f"{', '.join(charts.pictures) or 'no picture'}; {format_bytes(size)}")


def _write_comparison(
    experiment: Path,
    file: Path,
    baseline: str | None,
    build: Callable[[Comparison], pl.DataFrame],
) -> None:
    comparison = compare_runs(open_experiment(experiment), baseline)
    missing = {
        run.name: run.waterfall.reason
        for run in comparison.runs
        if isinstance(run.waterfall, Missing)
    }
    _write_rows(build(comparison), file, missing)


def _write_rows(frame: pl.DataFrame, file: Path, missing: Mapping[str, str]) -> None:
    """Write a table and print its size, and the reasons of runs without rows."""
    summary = write_table(frame, file)
    lines = [f"{summary.rows:,} rows, {len(summary.columns)} columns"]
    lines += [
        escape_control_characters(f"{run}: no rows: {reason}") for run, reason in missing.items()
    ]
    print_file(file, "\n".join(lines))
