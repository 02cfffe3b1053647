"""Recordings of launch costs on the terminal, single and compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from graphviz_dash.cli.text.output import (
    build_cell,
    create_table,
    print_heading,
    print_rows,
    print_table,
    print_text,
)
from graphviz_dash.features.launch import narrative as words
from graphviz_dash.features.launch import observer_narrative as observers
from graphviz_dash.features.launch.analysis.launch_comparison import LaunchComparison, PublishedTime
from graphviz_dash.features.launch.analysis.launch_costs import LaunchCosts, TopologyCosts
from graphviz_dash.features.launch.analysis.observer_effect import (
    ObserverEffect,
    StepMeasure,
    compute_observer_effect,
)
from graphviz_dash.features.launch.analysis.own_graphs import list_program_graphs
from graphviz_dash.features.launch.columns import (
    FIT_COLUMNS,
    build_measure_column,
    list_comparison_columns,
    list_fit_rows,
    list_own_columns,
    list_published_columns,
)
from graphviz_dash.features.launch.narrative import (
    describe_extra_costs,
    describe_launch_comparison,
    describe_launch_costs,
    format_chain_family,
    format_topology,
)
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.launch import LaunchMeasure, PublishedLaunch
from graphviz_dash.model.run import Experiment
from graphviz_dash.narrative.columns import Column
from graphviz_dash.units import format_count, format_ns, format_percent, format_ratio


def print_recording(path: str, costs: LaunchCosts) -> None:
    """Print the growth of each measure with graph size, and every median."""
    recording = costs.recording
    machine = recording.environment
    print_text(describe_launch_costs(costs))
    status = "" if recording.complete else ", interrupted"
    print_text(
        f"{path}: {machine.cpu}, driver {machine.driver or 'unknown'}, CUDA "
        f"{machine.cuda_runtime}, {recording.created[:10]}, {recording.trials} trials{status}"
    )
    for text in describe_extra_costs(costs):
        click.echo(text)
    print_heading("Growth along a linear chain")
    print_rows(FIT_COLUMNS, list_fit_rows("linear chains", costs.lines))
    for family, fits in costs.chains.items():
        title = format_chain_family(family)
        print_heading(f"Growth over {title}, by total nodes")
        print_rows(FIT_COLUMNS, list_fit_rows(title, fits))
    print_heading("Medians")
    measures = [
        measure for measure in LaunchMeasure if any(measure in row.timings for row in costs.rows)
    ]
    columns: list[Column[TopologyCosts]] = [
        Column("Graph", lambda row: format_topology(row.topology)),
        *(build_measure_column(measure) for measure in measures),
    ]
    print_rows(columns, costs.rows)


def print_launch_comparison(comparison: LaunchComparison) -> None:
    """Print medians side by side."""
    print_heading("Medians and their ratios to the first recording")
    print_text(describe_launch_comparison(comparison))
    print_rows(list_comparison_columns(comparison), comparison.differences)


def print_published(
    publication: PublishedLaunch, rows: Sequence[PublishedTime], names: list[str]
) -> None:
    """Print published times next to the recordings ``names``."""
    print_heading(f"Published: {publication.title}")
    print_text(f"{publication.authors}; {publication.address}")
    print_text(
        f"On {publication.gpu}, {publication.cpu}, with toolkits {publication.older} and "
        f"{publication.newer}; {publication.reading_method}."
    )
    print_rows(list_published_columns(names), rows)
    for statement in publication.statements:
        print_text(statement)


_MAX_SENTENCES = 6


def print_own_graphs(
    name: str, experiment: Experiment, references: Mapping[str, LaunchCosts]
) -> None:
    """Print shape and costs of every captured graph, next to a chain of its size."""
    graphs = list_program_graphs(experiment, references)
    print_heading(f"Graphs of {name}")
    if not graphs:
        click.echo(words.NO_OWN_GRAPHS)
        return
    for sentence in words.describe_own_graphs(graphs, _MAX_SENTENCES):
        print_text(sentence)
    print_rows(list_own_columns(graphs), graphs, lead=2)
    for missing in words.describe_untimed_measures(graphs):
        print_text(missing)


def print_observers(experiment: Experiment) -> None:
    """Print the effect of each observer on each run."""
    effects = [(run.name, compute_observer_effect(run)) for run in experiment.runs]
    print_heading("Profiler overhead")
    for name, effect in effects:
        if isinstance(effect, Missing):
            print_text(f"{name}: not available: {effect.reason}.")
        else:
            _print_effect(effect)


def _print_effect(effect: ObserverEffect) -> None:
    print_text(observers.describe_observer_effect(effect))
    for reason in observers.list_missing_observers(effect):
        print_text(f"Not tested: {reason}.")
    headings = [effect.run]
    for title, _ in observers.MEASURE_TITLES.values():
        headings += [title, ""]
    headings.append("records/step")
    table = create_table(*headings, right=range(1, len(headings)))
    for row in effect.rows:
        cells: list[object] = [observers.OBSERVER_TITLES[row.observer]]
        for measure in StepMeasure:
            change = row.effects.get(measure)
            has_ratio = change is not None and change.is_significant is not None
            ratio = format_ratio(change.ratio) if change is not None and has_ratio else ""
            cells += [format_ns(None if change is None else change.value), build_cell(ratio, "dim")]
        table.add_row(*cells, format_count(None if row.records is None else round(row.records)))
    print_table(table, lead=2)
    for row in effect.rows:
        for measure, reason in row.absent.items():
            title = observers.MEASURE_TITLES[measure][0]
            observer = observers.OBSERVER_TITLES[row.observer]
            print_text(f"{observer}: no {title!r}: {reason}.")
    noise = effect.noise[StepMeasure.STEP]
    click.echo(
        f"Two processes with nothing attached differ by {format_percent(noise - 1)} per step."
    )
