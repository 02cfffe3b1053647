"""``graphviz-dash memory``: memory breakdown of an experiment's runs."""

from __future__ import annotations

from pathlib import Path

import click

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.ledger.report import build_ledger_report, predict_report
from graphviz_dash.cli.loading import open_experiment
from graphviz_dash.cli.options import BASELINE_OPTION, JSON_OPTION, add_count_option
from graphviz_dash.cli.text.output import print_json
from graphviz_dash.features.ledger.changes import parse_changes, select_matching_runs
from graphviz_dash.features.ledger.text import print_ledgers
from graphviz_dash.features.memory.comparison import compare_memory
from graphviz_dash.features.memory.document import build_memory_document, build_snapshot_document
from graphviz_dash.features.memory.snapshots import list_snapshots
from graphviz_dash.features.memory.text import print_memory, print_snapshot
from graphviz_dash.ingest.formats.snapshot_file import read_snapshot_file


@click.command("memory")
@click.argument("experiment", type=click.Path(path_type=Path))
@BASELINE_OPTION
@add_count_option(
    "--graphs",
    10,
    "graphs to list per run, or of lines of a snapshot, largest first",
)
@click.option(
    "--ledger",
    is_flag=True,
    help="Show device memory and start-up time by cause, each graph, and possible savings.",
)
@click.option(
    "--fit",
    "changes",
    metavar="CHANGE",
    multiple=True,
    help="Predict memory and start-up of another configuration, with --ledger or --json: "
    "layers=16:24, ranks=1:4 (tensor parallel), sizes=64,8,1, a dimension of tensors such as "
    "512=1024, or device=80GiB. "
    "Repeatable.",
)
@JSON_OPTION
def memory_command(
    experiment: Path,
    baseline: str | None,
    count: int,
    ledger: bool,
    changes: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show the memory cost of CUDA graphs in the runs of EXPERIMENT.

    Prints the device memory of each run in parts that add up, the difference to the baseline, and
    the exclusive and shared parts of each graph's private pool. For a snapshot of
    torch.cuda.memory instead of an experiment, prints its live memory by stream, pool, block size
    and allocating line.
    """
    change = parse_changes(changes)
    if experiment.is_file():
        if baseline is not None:
            raise click.UsageError("A snapshot has no baseline.")
        if ledger or changes:
            raise click.UsageError("A snapshot has no ledger.")
        use = read_snapshot_file(experiment)
        if as_json:
            print_json("memory", build_snapshot_document(experiment, use, count))
        else:
            print_snapshot(use, count)
        return
    if changes and not (ledger or as_json):
        raise click.UsageError("--fit needs --ledger or --json.")
    loaded = open_experiment(experiment)
    matching_runs = select_matching_runs(loaded.runs, change) if changes else []
    result = compare_memory(compare_runs(loaded, baseline))
    reports = [
        (report, predict_report(run, report, change) if run.name in matching_runs else None)
        for run in loaded.runs
        if (report := build_ledger_report(run)) is not None
    ]
    if as_json:
        print_json("memory", build_memory_document(loaded, result, reports, count))
    elif ledger:
        print_ledgers(reports, count, has_change=bool(changes))
    else:
        print_memory(result, count)
        for name, use in list_snapshots(loaded.runs):
            click.echo()
            print_snapshot(use, count, name)
