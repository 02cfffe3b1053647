"""``graphviz-dash ls``: lists experiments and runs under a folder."""

from __future__ import annotations

import os
from pathlib import Path

import click

from graphviz_dash.app.documents.listed_experiments import ListedExperiment, list_experiments
from graphviz_dash.bundle.read import is_bundle
from graphviz_dash.cli.options import JSON_OPTION
from graphviz_dash.cli.progress_bar import show_progress
from graphviz_dash.cli.text.output import (
    build_cell,
    create_table,
    print_json,
    print_table,
    print_text,
)
from graphviz_dash.errors import InputError
from graphviz_dash.exports.documents.values import display_path
from graphviz_dash.ingest.load import search_experiments
from graphviz_dash.ingest.summaries import get_default_summaries


@click.command()
@click.argument("path", type=click.Path(path_type=Path), default=".")
@JSON_OPTION
def ls(path: Path, as_json: bool) -> None:
    """List the experiments and runs under PATH (default: this folder).

    Step time and speedup are medians of the clean pass or of a recorded program, or means if these
    are marked. Unreadable bundles are listed on stderr, with exit code 2.
    """
    if is_bundle(path):
        raise InputError(
            path, "a single run", "a folder of experiments", "Try: graphviz-dash show."
        )
    search = search_experiments(path)
    for problem in search.problems:
        click.echo(f"Skipped: {problem}.", err=True)
    with show_progress(path.name):
        experiments = [
            *list_experiments(path.resolve(), search.experiments, get_default_summaries())
        ]
    if as_json:
        documents = [experiment.build_document(folder) for folder, experiment in experiments]
        print_json("ls", {"experiments": documents})
    else:
        _print_experiments(experiments, path)
    errors = [text for _, experiment in experiments for _, text in experiment.unreadable]
    for text in errors:
        print_text(f"Error: {text}", err=True)
    if errors:
        raise click.exceptions.Exit(2)


def _print_experiments(experiments: list[tuple[Path, ListedExperiment]], path: Path) -> None:
    if not experiments:
        print_text(f"No experiments under {path}", err=True)
        return
    headings = ("run", "workload", "mode", "status", "step time", "speedup", "GPU", "date (UTC)")
    table = create_table(*headings, right=(4, 5))
    invalid = []
    for path_of_experiment, experiment in experiments:
        folder = str(path_of_experiment)
        for run in experiment.rows:
            name = display_path(os.path.join(folder, run.name))
            if run.has_speedup and not run.replays_match:
                invalid.append(name)
            table.add_row(
                name,
                run.workload,
                run.mode,
                build_cell(run.status, "red" if run.status != "complete" else ""),
                f"{run.step} ({run.statistic})" if run.statistic else run.step,
                build_cell(run.speedup, "bold" if run.replays_match else "dim"),
                run.gpu,
                run.date,
            )
        for bundle, _ in experiment.unreadable:
            bundle_path = display_path(os.path.join(folder, bundle))
            table.add_row(bundle_path, "", "", build_cell("unreadable", "red"))
    print_table(table, spare=(6, 1, 3, 7))
    for name in invalid:
        print_text(f"{name}: replays compute a different result")
