"""``graphviz-dash ls``: lists experiments and runs under a folder."""

from __future__ import annotations

from pathlib import Path

import click

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.app.documents.listing import build_listing_document
from graphviz_dash.bundle.read import is_bundle
from graphviz_dash.cli.light import LightExperiment, load_light_experiment
from graphviz_dash.cli.text.output import build_cell, create_table, print_json, print_table
from graphviz_dash.errors import InputError, escape_control_characters
from graphviz_dash.exports.documents.values import display_path
from graphviz_dash.ingest.load import search_experiments


@click.command()
@click.argument("path", type=click.Path(path_type=Path), default=".")
@click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON document (docs/reference/json.md)."
)
def ls(path: Path, as_json: bool) -> None:
    """List the experiments and runs under PATH (default: this folder).

    Step time and speedup are medians of the clean pass; for a recorded program, the recorded step
    time. Unreadable bundles are listed on stderr, with exit code 2.
    """
    if is_bundle(path):
        raise InputError(
            path, "a single run", "a folder of experiments", "Try: graphviz-dash show."
        )
    search = search_experiments(path)
    for problem in search.problems:
        click.echo(f"Skipped: {problem}.", err=True)
    experiments = [load_light_experiment(folder) for folder in search.experiments]
    if as_json:
        listed = [(compare_runs(light.experiment), light.unreadable) for light in experiments]
        print_json("ls", build_listing_document(listed))
    else:
        _print_experiments(experiments, path)
    unreadable = [text for light in experiments for _, text in light.unreadable]
    for text in unreadable:
        click.echo(escape_control_characters(f"Error: {text}"), err=True)
    if unreadable:
        raise click.exceptions.Exit(2)


def _print_experiments(experiments: list[LightExperiment], path: Path) -> None:
    if not experiments:
        click.echo(escape_control_characters(f"No experiments under {path}"), err=True)
        return
    headings = ("run", "workload", "mode", "status", "step time", "speedup", "GPU", "date (UTC)")
    table = create_table(*headings, right=(4, 5))
    invalid = []
    for light in experiments:
        for run in compare_runs(light.experiment).runs:
            manifest = run.run.manifest
            if run.speedup.value is not None and not run.replays_match:
                invalid.append(display_path(run.run.path))
            number = manifest.job_rank
            rank = "" if number is None else f" rank {number}"
            failed = manifest.status != "complete"
            table.add_row(
                build_cell(display_path(run.run.path)),
                build_cell(manifest.workload.name),
                build_cell(f"{run.mode.value}{rank}"),
                build_cell(manifest.status, "red" if failed else ""),
                build_cell(run.step.text),
                build_cell(run.speedup.text, "bold" if run.replays_match else "dim"),
                build_cell(manifest.environment.gpu_name),
                build_cell(manifest.recorded_or_created_at[:10]),
            )
        for bundle, _ in light.unreadable:
            table.add_row(build_cell(display_path(bundle)), "", "", build_cell("unreadable", "red"))
    print_table(table, spare=(6, 1, 3, 7))
    for run_path in invalid:
        click.echo(escape_control_characters(f"{run_path}: replays compute a different result"))
