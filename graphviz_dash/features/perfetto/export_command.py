"""``graphviz-dash export perfetto``: the runs of an experiment as one trace."""

from __future__ import annotations

from pathlib import Path

import click

from graphviz_dash.cli.loading import open_experiment
from graphviz_dash.cli.text.output import print_text
from graphviz_dash.errors import GraphvizDashError
from graphviz_dash.exports.files import ExportSummary
from graphviz_dash.features.perfetto.trace.chrome import export_chrome
from graphviz_dash.features.perfetto.trace.perfetto import export_perfetto
from graphviz_dash.features.perfetto.trace.perfetto_check import TraceCheck, check_trace
from graphviz_dash.units import format_bytes, format_count

_JSON_SUFFIXES = (".json", ".json.gz")


@click.command(short_help="Runs side by side, for ui.perfetto.dev.")
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
@click.option("--check", is_flag=True, help="Read the native trace again and check it.")
def perfetto(experiment: Path, file: Path, form: str | None, check: bool) -> None:
    """Write the runs of an EXPERIMENT side by side as a trace for ui.perfetto.dev.

    EXPERIMENT is a folder whose direct children are run bundles.
    """
    is_json = form == "json" or (form is None and file.name.lower().endswith(_JSON_SUFFIXES))
    if check and is_json:
        raise click.UsageError("--check reads native traces, not JSON")
    loaded = open_experiment(experiment)
    if is_json:
        _print_summary(export_chrome(loaded, file))
        return
    summary = export_perfetto(loaded, file)
    if check:
        _print_check(summary, check_trace(file))
    _print_summary(summary)


def _print_summary(summary: ExportSummary) -> None:
    """Print the path on stdout, for scripts, and the content on stderr."""
    counts = {
        "tracks": summary.tracks,
        "slices": summary.slices,
        "flows": summary.flows,
        "counter values": summary.counters,
    }
    listed = ", ".join(f"{format_count(count)} {kind}" for kind, count in counts.items())
    click.echo(
        f"{', '.join(summary.runs)}: {listed}; {format_bytes(summary.bytes)}",
        err=True,
    )
    if summary.overflowed:
        click.echo(
            f"{format_count(summary.overflowed)} overlapping slices were moved to separate lanes",
            err=True,
        )
    for name, reason in summary.skipped:
        click.echo(f"omitted {name}: {reason}", err=True)
    print_text(str(summary.path))


def _print_check(summary: ExportSummary, check: TraceCheck) -> None:
    problems = list(check.problems)
    for kind, written, read in (
        ("tracks", summary.tracks, check.tracks),
        ("slices", summary.slices, check.slices),
        ("flows", summary.flows, check.flows),
        ("counter values", summary.counters, check.counters),
    ):
        if written != read:
            problems.append(f"{written:,} {kind} were written, but the file contains {read:,}")
    if problems:
        more = f" (and {check.more_problems:,} more)" if check.more_problems else ""
        raise GraphvizDashError(f"{summary.path}: {'; '.join(problems)}{more}")
    click.echo(f"checked: {check.packets:,} packets are consistent", err=True)
