"""Multi-stream predictions and plans of a graph, on the terminal."""

from __future__ import annotations

import click

from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.analysis.prediction.predict import Prediction
from graphviz_dash.cli.text.output import create_table, print_heading, print_table
from graphviz_dash.features.prediction.analysis.eager_bounds import compute_eager_bounds
from graphviz_dash.features.prediction.analysis.measured import sort_attempts
from graphviz_dash.features.prediction.analysis.stream_prediction import ParallelPrediction
from graphviz_dash.features.prediction.stream_narrative import (
    ATTEMPT_HEADINGS,
    EAGER_HEADINGS,
    STREAM_HEADINGS,
    build_attempt_row,
    build_eager_row,
    build_stream_row,
    describe_eager_bounds,
    describe_parallel,
    describe_plan,
    describe_plan_origin,
)
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import Run


def print_parallel_plans(result: Comparison) -> None:
    """Print the results of each run captured on several streams."""
    for run in result.runs:
        plan = run.run.parallel
        if plan is None:
            continue
        print_heading(f"{run.name}: the step on several streams")
        for sentence in describe_plan(run.name, plan):
            click.echo(f"  {sentence}")
        table = create_table(*ATTEMPT_HEADINGS, right=range(len(ATTEMPT_HEADINGS)))
        for attempt in sort_attempts(plan):
            table.add_row(*build_attempt_row(plan, attempt))
        print_table(table)
        click.echo(f"  {describe_plan_origin(plan)}")


def print_eager_bounds(prediction: Prediction) -> None:
    """Print bounds of the predicted graph of an eager step on several streams."""
    print_heading("Graph on several streams, estimated from the eager trace")
    table = create_table(*EAGER_HEADINGS, right=range(len(EAGER_HEADINGS)))
    bounds = compute_eager_bounds(prediction)
    for bound in bounds:
        table.add_row(*build_eager_row(bound))
    print_table(table)
    click.echo(f"  {describe_eager_bounds(bounds)}")


def print_parallel(run: Run, prediction: ParallelPrediction | Missing) -> None:
    """Print predictions, or the reason if unavailable; results for a run on several streams."""
    if isinstance(prediction, Missing):
        click.echo(f"  on several streams: {prediction.reason}")
        return
    outcome, *notes = describe_parallel(run.name, run.parallel, prediction)
    click.echo(f"  {outcome}")
    if len(prediction.rows) > 1 and run.parallel is None:
        table = create_table(*STREAM_HEADINGS, right=range(5))
        for row in prediction.rows:
            table.add_row(*build_stream_row(row))
        print_table(table)
    for note in notes:
        click.echo(f"  {note}")
