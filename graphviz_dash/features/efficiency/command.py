"""``graphviz-dash efficiency``: distance of nodes from the limits of the GPU."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import click

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.metrics.run_selection import select_baseline
from graphviz_dash.analysis.step_comparison.work_pairs import WorkPairs
from graphviz_dash.bundle.ceilings import read_ceilings
from graphviz_dash.cli.loading import open_run, open_run_trace
from graphviz_dash.cli.options import JSON_OPTION
from graphviz_dash.cli.text.brief import add_all_option, limit_output
from graphviz_dash.cli.text.output import print_json
from graphviz_dash.errors import InputError
from graphviz_dash.features.efficiency.analysis.ceilings_choice import (
    CeilingsChoice,
    CeilingsOrigin,
    find_shipped_ceilings,
)
from graphviz_dash.features.efficiency.analysis.report import (
    EfficiencyReport,
    GroupKey,
    measure_run_efficiency,
    measure_step_efficiency,
)
from graphviz_dash.features.efficiency.document import build_efficiency_document
from graphviz_dash.features.efficiency.narrative import MEASURE_COMMAND
from graphviz_dash.features.efficiency.text import print_efficiency
from graphviz_dash.guidance.narrative import explain_missing_shapes
from graphviz_dash.ingest.load import load_run, load_without_graphs
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.ceilings import Ceilings
from graphviz_dash.model.run import Experiment, Run
from graphviz_dash.model.trace import Trace

_NO_LIMITS: Final = "a trace contains no limits of its GPU"


def _compare_with_eager(run: Run) -> WorkPairs | None:
    """Compare the step of a run with the baseline in the same folder; None if impossible."""
    if not run.graphs or run.replay_trace is None:
        return None
    folder = run.path.parent
    try:
        experiment = load_without_graphs(folder)
        default_baseline = select_baseline(experiment.runs)
        name = experiment.baseline or (default_baseline and default_baseline.name)
        baseline = next((other for other in experiment.runs if other.name == name), None)
        if baseline is None or baseline.path.name == run.path.name:
            return None
        runs = (load_run(baseline.path), run)
    except InputError:
        # The run itself can be read.
        return None
    waterfall = compare_runs(Experiment(folder, runs))[run.name].waterfall
    return None if isinstance(waterfall, Missing) else waterfall.pairs


@click.command("efficiency")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--graph", "graph_id", metavar="ID", help="Graph.  [default: all of a step]")
@click.option(
    "--by",
    "key",
    type=click.Choice([key.value for key in GroupKey]),
    default=GroupKey.OPERATOR.value,
    show_default=True,
    help="Property that groups the operators.",
)
@click.option(
    "--limits",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    help=f"Limits of the GPU, from `{MEASURE_COMMAND} -o FILE`.  [default: those of the run]",
)
@add_all_option
@JSON_OPTION
def show_efficiency(
    run: Path, graph_id: str | None, key: str, file: Path | None, everything: bool, as_json: bool
) -> None:
    """Show how far the nodes of graphs are from the limits of the GPU.

    RUN is a run bundle, or a torch.profiler trace with shapes. Prints the time near the limit, the
    time above it by operator, module or line, and changes with predicted savings; with --all also
    each operator call. Times are per replay of a single graph. Several graphs are weighted by
    their replays per step.
    """
    ceilings_override = None if file is None else read_ceilings(file)
    report, bundle = _measure_path(run, graph_id, ceilings_override)
    if as_json:
        print_json("efficiency", build_efficiency_document(run.name, report))
        return
    with limit_output(everything=everything):
        print_efficiency(report, GroupKey(key), bundle, everything=everything)


def _choose_for_trace(trace: Trace, ceilings_override: Ceilings | None) -> CeilingsChoice | Missing:
    if ceilings_override is not None:
        return CeilingsChoice(ceilings_override, CeilingsOrigin.FILE)
    names = set(trace.info.device_names)
    reference = find_shipped_ceilings(names.pop()) if len(names) == 1 else None
    return Missing(Fact.CEILINGS, _NO_LIMITS) if reference is None else reference


def _measure_path(
    path: Path, graph_id: str | None, ceilings_override: Ceilings | None
) -> tuple[EfficiencyReport, Run | None]:
    """Return the report, and the run if ``path`` is a bundle."""
    run: Run | None = None
    if not path.is_dir():
        trace = open_run_trace(path)
        report = measure_step_efficiency(trace, _choose_for_trace(trace, ceilings_override))
        remedies: tuple[str, ...] = ()
    else:
        run = open_run(Path(os.path.abspath(path)))
        if graph_id is not None and graph_id not in {graph.id for graph in run.graphs}:
            ids = ", ".join(graph.id for graph in run.graphs) or "no graphs"
            raise InputError(f"--graph {graph_id}", "no such graph", f"one of {ids}")
        report = measure_run_efficiency(run, graph_id, ceilings_override, _compare_with_eager(run))
        remedies = tuple(filter(None, explain_missing_shapes(run, ()) or ()))
    if isinstance(report, Missing):
        raise InputError(path, report.reason, "timed kernels with operators", " ".join(remedies))
    return report, run
