"""``graphviz-dash ladder``: which sizes of graphs are worth capturing."""

from __future__ import annotations

from pathlib import Path

import click

from graphviz_dash.analysis.loop.copied_sizes import copies_may_tell
from graphviz_dash.analysis.loop.family_report import (
    FamilyReport,
    LoopReport,
    loop_report,
)
from graphviz_dash.bundle.read import is_bundle
from graphviz_dash.cli.light import light_experiment
from graphviz_dash.cli.text.output import print_json
from graphviz_dash.errors import InputError
from graphviz_dash.features.ladder.analysis.ladder_advice import advise, ladder_basis
from graphviz_dash.features.ladder.analysis.ladder_inputs import ladder_data
from graphviz_dash.features.ladder.analysis.ladder_problem import Budget
from graphviz_dash.features.ladder.document import ladder_document
from graphviz_dash.features.ladder.text import print_ladder
from graphviz_dash.ingest.load import load_run, with_replay_trace
from graphviz_dash.ingest.traffic import read_traffic
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import Run


@click.command("ladder")
@click.argument("experiment", type=click.Path(path_type=Path))
@click.option("--run", "name", metavar="RUN", help="Of several.  [default: the most steps]")
@click.option("--family", metavar="NAME", help="Of several.  [default: the most steps]")
@click.option(
    "--graphs",
    type=click.IntRange(0),
    metavar="K",
    help="At most so many sizes.  [default: as many as were captured]",
)
@click.option(
    "--memory", type=click.IntRange(0), metavar="BYTES", help="At most so much device memory."
)
@click.option(
    "--startup", type=click.FloatRange(0), metavar="SECONDS", help="At most so long to prepare."
)
@click.option(
    "--traffic",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Sizes of requests, one a line, instead of those that the program had.",
)
@click.option(
    "--list",
    "count",
    default=0,
    show_default=True,
    type=click.IntRange(0),
    help="Graphs of the family to list, by size.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON document (docs/reference/json.md)."
)
def ladder_command(
    experiment: Path,
    name: str | None,
    family: str | None,
    graphs: int | None,
    memory: int | None,
    startup: float | None,
    traffic: Path | None,
    count: int,
    as_json: bool,
) -> None:
    """Find the sizes of graphs that are worth capturing for a server's requests.

    EXPERIMENT holds a recorded program that replays a graph for each of several sizes; a run's own
    folder does too. From the measured times of its graphs and the sizes that were asked for: the
    best sizes within the budgets, what they gain over those that were captured, and what a request
    above the largest costs.
    """
    report = _report(experiment, name)
    chosen = _family(experiment, report, family)
    requests = None if traffic is None else read_traffic(traffic)
    budget = Budget(graphs, memory, None if startup is None else round(startup * 1e9))
    data = ladder_data(report, chosen, requests)
    advice = data if isinstance(data, Missing) else advise(ladder_basis(data), budget)
    if as_json:
        source = None if traffic is None else traffic.name
        print_json("ladder", ladder_document(report, chosen, advice, source))
    else:
        print_ladder(report, chosen, advice, count)


def _report(path: Path, name: str | None) -> LoopReport:
    """The loop of the run called ``name``, or of that with the most steps."""
    runs = _runs(path)
    if name is not None:
        runs = [run for run in runs if run.name == name]
        if not runs:
            listed = ", ".join(run.name for run in _runs(path))
            raise InputError(path, f"no run {name!r}", f"one of {listed}")
    reports = [
        loop_report(with_replay_trace(run) if copies_may_tell(run.loop) else run) for run in runs
    ]
    loops = [report for report in reports if not isinstance(report, Missing)]
    if not loops:
        reasons = "; ".join(
            f"{run.name}: {report.reason}"
            for run, report in zip(runs, reports, strict=True)
            if isinstance(report, Missing)
        )
        raise InputError(
            path,
            reasons,
            "a recorded program with graphs",
            "Record one with: graphviz-dash collect -o FOLDER -- python server.py",
        )
    return max(loops, key=lambda report: report.steps_seen)


def _runs(path: Path) -> list[Run]:
    if is_bundle(path):
        return [load_run(path.absolute(), traces=False)]
    return list(light_experiment(path).experiment.runs)


def _family(path: Path, report: LoopReport, name: str | None) -> FamilyReport:
    if name is None:
        return next((each for each in report.families if each.has_sizes), report.families[0])
    for each in report.families:
        if each.family.name == name:
            return each
    listed = ", ".join(each.family.name for each in report.families)
    raise InputError(path, f"no family {name!r}", f"one of {listed}")
