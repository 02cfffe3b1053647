"""Prediction on the terminal: verdict, intervals, breakdown, blockers and modules."""

from __future__ import annotations

import click

from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.analysis.prediction.predict import Prediction
from graphviz_dash.analysis.prediction.uncertainty import Estimate
from graphviz_dash.cli.text.output import create_table, print_heading, print_table, print_text
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.features.prediction.stream_text import print_eager_bounds, print_parallel_plans
from graphviz_dash.model.absence import Missing
from graphviz_dash.narrative.prediction import (
    IDLE_HEADINGS,
    build_idle_rows,
    describe_idle_method,
    format_blocker_certainty,
    format_blocker_facts,
    format_idle_time,
    format_one_off_cost,
    format_prediction_score,
    format_prediction_verdict,
    list_partial_bases,
    list_prediction_reasons,
    list_unchecked,
    list_warnings,
)
from graphviz_dash.units import format_count, format_ns, format_ratio


def print_prediction(prediction: Prediction, modules: int, shipped: bool) -> None:
    """Print ``modules`` modules; ``shipped`` is true for the included calibration."""
    print_text(format_prediction_verdict(prediction))
    click.echo(_format_calibration(prediction, shipped))
    _print_figures(prediction)
    print_eager_bounds(prediction)
    _print_notes(prediction)
    _print_idle(prediction)
    _print_reasons(prediction)
    print_blockers(prediction)
    if modules:
        _print_parts(prediction, modules)


def print_prediction_summary(prediction: Prediction) -> None:
    """Print verdict, figures and blockers of a prediction."""
    print_text(format_prediction_verdict(prediction))
    print_partial_bases(prediction)
    _print_figures(prediction)
    print_blockers(prediction)


def print_partial_bases(prediction: Prediction) -> None:
    """Print why a prediction covers only part of the trace or of its work."""
    for text in list_partial_bases(prediction):
        print_text(f"Partial: {text}.")


def print_scored_predictions(result: Comparison) -> None:
    """Print predictions next to measurements, for the eager trace and captures on several
    streams."""
    for run in result.runs:
        if not isinstance(run.prediction, Missing):
            print_heading(f"{run.name}: prediction and measurement")
            click.echo(f"  {format_prediction_score(run.prediction, run['step_time'].value)}")
    print_parallel_plans(result)


def _format_calibration(prediction: Prediction, shipped: bool) -> str:
    machine = prediction.calibration.environment
    origin = "the included calibration" if shipped else "the given calibration"
    return escape_control_characters(
        f"Calibration ({origin}): {prediction.calibration.gpu.name}, driver "
        f"{machine.driver or 'unknown'}, torch {machine.torch}, recorded "
        f"{prediction.calibration.recorded_at[:10]} from {len(prediction.calibration.samples)} "
        "workloads."
    )


def _print_figures(prediction: Prediction) -> None:
    print_heading("Predicted")
    table = create_table("", "", "90% from", "to", right=(1, 2, 3))

    def add_row(title: str, value: Estimate, show: object) -> None:
        assert callable(show)
        interval = ("", "")
        if value.low is not None:
            interval = show(value.low), "never" if value.high is None else show(value.high)
        table.add_row(title, show(value.value), *interval)

    # Without marked steps, the total is not a step.
    is_full_trace = prediction.covers_whole_trace
    eager = "Full trace" if is_full_trace else "Eager step"
    graphed = "All work with CUDA graphs" if is_full_trace else "Graphed step"
    table.add_row(f"{eager}, {prediction.eager_side.value}", format_ns(prediction.eager_ns), "", "")
    add_row(graphed, prediction.step_ns, format_ns)
    add_row(f"{graphed}, back to back", prediction.interval_ns, format_ns)
    if prediction.remaining_idle_ns >= 1:
        table.add_row("Remaining idle time", format_ns(round(prediction.remaining_idle_ns)), "", "")
    if not isinstance(prediction.speedup, Missing):
        add_row("Speedup", prediction.speedup, format_ratio)
    if not isinstance(prediction.saving_ns, Missing):
        add_row("Saving per step", prediction.saving_ns, format_ns)
    if not isinstance(prediction.break_even, Missing):
        add_row("Break-even replays", prediction.break_even, format_count)
    print_table(table)
    click.echo()
    click.echo(f"  One-time cost: {format_one_off_cost(prediction)}.")
    if isinstance(prediction.break_even, Missing):
        click.echo(f"  No break-even: {prediction.break_even.reason}.")


def _print_idle(prediction: Prediction) -> None:
    idle = prediction.idle
    if not idle.parts:
        return
    print_heading(f"GPU idle time, {format_idle_time(prediction)}")
    table = create_table(*IDLE_HEADINGS, right=(1, 2))
    for row in build_idle_rows(idle):
        table.add_row(*row)
    print_table(table)
    click.echo(f"  {describe_idle_method(prediction)}")


def _print_reasons(prediction: Prediction) -> None:
    print_heading("Breakdown")
    for reason in list_prediction_reasons(prediction):
        click.echo(f"  - {reason}")


def print_predicted_blockers(result: Comparison) -> None:
    """Print blockers of the run without a graph, if it has a prediction."""
    if result.predicted_run is not None and not isinstance(
        result.predicted_run.graph_prediction, Missing
    ):
        print_blockers(result.predicted_run.graph_prediction)


def print_blockers(prediction: Prediction) -> None:
    """Print capture blockers with advice."""
    if not prediction.blockers:
        print_heading("Capture blockers: none in the trace")
    else:
        print_heading("Capture blockers")
    for number, blocker in enumerate(prediction.blockers, 1):
        certainty = format_blocker_certainty(blocker)
        print_text(f"  {number}. {certainty}: {blocker.rule.title} [{blocker.rule.id.value}]")
        print_text(f"     {format_blocker_facts(blocker, prediction)}")
        click.echo(f"     fix: {blocker.rule.advice}")
    for text in list_unchecked(prediction):
        click.echo(f"  Not available: {text}")


def _print_parts(prediction: Prediction, limit: int) -> None:
    if isinstance(prediction.modules, Missing):
        print_heading("Single modules")
        click.echo(f"  Not available: {prediction.modules.reason}")
        return
    modules = prediction.modules.modules
    rows = modules[:limit]
    print_heading(f"Single modules, {len(rows)} of {len(modules)}, by {prediction.modules.source}")
    headings = ("module", "kernels", "eager time", "GPU busy", "graphs", "graphed", "saved")
    table = create_table(*headings, right=range(1, 7))
    for module in rows:
        table.add_row(
            module.name or "(no module)",
            format_count(module.kernels),
            *(format_ns(value) for value in (module.eager_ns, module.busy_ns)),
            format_count(module.graphs),
            *(format_ns(value) for value in (module.graphed_ns, module.saving_ns)),
        )
    print_table(table)
    for module in rows:
        if module.blockers:
            print_text(f"  {module.name}: {module.blockers} of the findings above")


def _print_notes(prediction: Prediction) -> None:
    if list_warnings(prediction):
        print_heading("Low-confidence metrics")
        for text in list_warnings(prediction):
            print_text(f"  - {text}")
