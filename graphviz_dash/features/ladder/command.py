"""``graphviz-dash ladder``: recommended capture sizes."""

from __future__ import annotations

from pathlib import Path

import click

from graphviz_dash.analysis.loop.copied_sizes import can_infer_sizes
from graphviz_dash.analysis.loop.family_report import (
    FamilyReport,
    LoopReport,
    build_loop_report,
)
from graphviz_dash.bundle.read import is_bundle
from graphviz_dash.cli.light import load_light_experiment
from graphviz_dash.cli.options import JSON_OPTION, add_count_option
from graphviz_dash.cli.text.brief import add_all_option, limit_output
from graphviz_dash.cli.text.output import print_json
from graphviz_dash.errors import InputError
from graphviz_dash.features.ladder.analysis.coverage import build_coverage, select_family
from graphviz_dash.features.ladder.analysis.ladder_advice import (
    LadderAdvice,
    build_ladder_basis,
    recommend_ladder,
)
from graphviz_dash.features.ladder.analysis.ladder_inputs import build_ladder_data
from graphviz_dash.features.ladder.analysis.ladder_problem import Budget
from graphviz_dash.features.ladder.document import build_ladder_document
from graphviz_dash.features.ladder.text import print_ladder
from graphviz_dash.ingest.load import add_replay_trace, load_experiment, load_run
from graphviz_dash.ingest.traffic import read_traffic
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import Run


@click.command("ladder")
@click.argument("experiment", type=click.Path(path_type=Path))
@click.option(
    "--run", "name", metavar="RUN", help="Run to analyse.  [default: the run with most steps]"
)
@click.option(
    "--family", metavar="NAME", help="Family to analyse.  [default: the family with most to gain]"
)
@click.option(
    "--graphs",
    type=click.IntRange(0),
    metavar="K",
    help="Maximum number of sizes.  [default: the number captured]",
)
@click.option("--memory", type=click.IntRange(0), metavar="BYTES", help="Maximum device memory.")
@click.option(
    "--startup", type=click.FloatRange(0), metavar="SECONDS", help="Maximum startup time."
)
@click.option(
    "--traffic",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="File with one request size per line, instead of the recorded sizes.",
)
@add_count_option("--list", 0, "graphs of the family to list, by size")
@add_all_option
@JSON_OPTION
def ladder_command(
    experiment: Path,
    name: str | None,
    family: str | None,
    graphs: int | None,
    memory: int | None,
    startup: float | None,
    traffic: Path | None,
    count: int,
    everything: bool,
    as_json: bool,
) -> None:
    """Recommend capture sizes for a server's requests.

    EXPERIMENT contains a recorded program that replays one graph per size; a run folder is accepted
    too. From measured graph times and requested sizes, prints the best sizes within the budgets,
    their gain over the captured sizes, and the cost of a request above the largest size.
    """
    report = _load_loop_report(experiment, name)
    chosen = _select_family(experiment, report, family)
    requests = None if traffic is None else read_traffic(traffic)
    budget = Budget(graphs, memory, None if startup is None else round(startup * 1e9))
    data = build_ladder_data(report, chosen, requests)
    advice: LadderAdvice | Missing
    if isinstance(data, Missing):
        advice, coverage = data, None
    else:
        basis = build_ladder_basis(data)
        advice, coverage = recommend_ladder(basis, budget), build_coverage(data)
    if as_json:
        source = None if traffic is None else traffic.name
        print_json("ladder", build_ladder_document(report, chosen, advice, coverage, source))
    else:
        with limit_output(everything=everything):
            print_ladder(report, chosen, advice, coverage, count)


def _load_loop_report(path: Path, name: str | None) -> LoopReport:
    """Return the loop of a run, by default the one with the most steps."""
    runs = _load_runs(path)
    if name is not None:
        runs = [run for run in runs if run.name == name]
        if not runs:
            listed = ", ".join(run.name for run in _load_runs(path))
            raise InputError(path, f"no run {name!r}", f"one of {listed}")
    reports = [
        build_loop_report(add_replay_trace(run) if can_infer_sizes(run.loop) else run)
        for run in runs
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


def _load_runs(path: Path) -> list[Run]:
    if is_bundle(path):
        return [load_run(path.absolute(), traces=False)]
    light = load_light_experiment(path)
    if not light.experiment.runs:
        load_experiment(path, traces=False)  # raises the reason
    return list(light.experiment.runs)


def _select_family(path: Path, report: LoopReport, name: str | None) -> FamilyReport:
    if name is None:
        return select_family(report)
    for candidate in report.families:
        if candidate.family.name == name:
            return candidate
    listed = ", ".join(candidate.family.name for candidate in report.families)
    raise InputError(path, f"no family {name!r}", f"one of {listed}")
