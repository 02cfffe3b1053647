"""``graphviz-dash ls``: the experiments and runs under a folder."""

from __future__ import annotations

from pathlib import Path

import click

from graphviz_dash.analysis.comparison.compare import compare
from graphviz_dash.bundle.read import is_bundle
from graphviz_dash.cli.light import LightExperiment, light_experiment
from graphviz_dash.cli.text.output import cell, plain_table, print_json, print_table
from graphviz_dash.errors import InputError, printable
from graphviz_dash.exports.documents.listing import listing_document
from graphviz_dash.exports.documents.values import shown
from graphviz_dash.ingest.load import look_for_experiments


@click.command()
@click.argument("path", type=click.Path(path_type=Path), default=".")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document (docs/cli.md).")
def ls(path: Path, as_json: bool) -> None:
    """List the experiments and runs under PATH (default: this folder).

    Step time and speedup are medians of the clean pass, and of a recorded program the time of a
    step in its own loop. Bundles that cannot be read are named on
    stderr; the exit code is 2 then.
    """
    if is_bundle(path):
        raise InputError(
            path, "a single run", "a folder of experiments", "Try: graphviz-dash show."
        )
    found = look_for_experiments(path)
    for problem in found.problems:
        click.echo(printable(f"Not followed: {problem}."), err=True)
    experiments = [light_experiment(folder) for folder in found.experiments]
    if as_json:
        listed = [(compare(light.experiment), light.unreadable) for light in experiments]
        print_json("ls", listing_document(listed))
    else:
        _print(experiments, path)
    unreadable = [text for light in experiments for _, text in light.unreadable]
    for text in unreadable:
        click.echo(printable(f"Error: {text}"), err=True)
    if unreadable:
        raise click.exceptions.Exit(2)


def _print(experiments: list[LightExperiment], path: Path) -> None:
    if not experiments:
        click.echo(printable(f"No experiments under {path}"), err=True)
        return
    headings = ("run", "workload", "mode", "status", "step time", "speedup", "GPU", "date (UTC)")
    table = plain_table(*headings, right=(4, 5))
    unsound = []
    for light in experiments:
        for run in compare(light.experiment).runs:
            manifest = run.run.manifest
            if run.speedup.value is not None and not run.replays_match:
                unsound.append(shown(run.run.path))
            number = manifest.rank_of_several
            rank = "" if number is None else f" rank {number}"
            failed = manifest.status != "complete"
            table.add_row(
                cell(shown(run.run.path)),
                cell(manifest.workload.name),
                cell(f"{run.mode.value}{rank}"),
                cell(manifest.status, "red" if failed else ""),
                cell(run.step.text),
                cell(run.speedup.text, "bold" if run.replays_match else "dim"),
                cell(manifest.environment.gpu_name),
                cell(manifest.measured[:10]),
            )
        for bundle, _ in light.unreadable:
            table.add_row(cell(shown(bundle)), "", "", cell("unreadable", "red"))
    print_table(table, spare=(6, 1, 3, 7))
    for run_path in unsound:
        click.echo(printable(f"{run_path}: replays do other work than the step"))
