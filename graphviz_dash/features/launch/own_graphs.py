"""An experiment's graphs next to recordings of launch costs, and its profiler overhead."""

from __future__ import annotations

from collections.abc import Mapping

import click

from graphviz_dash.cli.text.output import (
    ABSENT_TEXT,
    build_cell,
    create_table,
    print_heading,
    print_table,
)
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.features.launch import narrative as words
from graphviz_dash.features.launch import observer_narrative as observers
from graphviz_dash.features.launch.analysis.launch_costs import LaunchCosts
from graphviz_dash.features.launch.analysis.observer_effect import (
    ObserverEffect,
    StepMeasure,
    compute_observer_effect,
)
from graphviz_dash.features.launch.analysis.own_graphs import list_program_graphs
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.launch import LaunchMeasure
from graphviz_dash.model.run import Experiment
from graphviz_dash.units import format_count, format_ns, format_percent, format_ratio

_MAX_SENTENCES = 6


def print_own_graphs(
    name: str, experiment: Experiment, references: Mapping[str, LaunchCosts]
) -> None:
    """Print the shape and the costs of every captured graph, next to a chain of its size."""
    graphs = list_program_graphs(experiment, references)
    print_heading(f"Graphs of {name}")
    if not graphs:
        click.echo(words.NO_OWN_GRAPHS)
        return
    for sentence in words.describe_own_graphs(graphs, _MAX_SENTENCES):
        click.echo(escape_control_characters(sentence))
    measures = [
        measure for measure in LaunchMeasure if any(measure in graph.timings for graph in graphs)
    ]
    headings = ["run", "graph", "nodes", "linear share", "roots", "width"]
    headings += [words.MEASURE_TITLES[measure] for measure in measures] + ["chain", "of chain"]
    table = create_table(*headings, right=range(2, len(headings)))
    for graph in graphs:
        shape = graph.shape
        shape_texts = (
            (
                format_percent(shape.chained_share),
                format_count(shape.roots),
                format_count(shape.width),
            )
            if shape
            else (ABSENT_TEXT,) * 3
        )
        timings = [
            format_ns(graph.timings[measure].summary.median)
            if measure in graph.timings
            else ABSENT_TEXT
            for measure in measures
        ]
        chain_cost = graph.chain
        chain = (
            (format_ns(chain_cost.ns), format_ratio(chain_cost.ratio))
            if chain_cost
            else (ABSENT_TEXT, ABSENT_TEXT)
        )
        texts = (graph.run, graph.name, format_count(graph.nodes), *shape_texts, *timings, *chain)
        table.add_row(*(build_cell(text) for text in texts))
    print_table(table, lead=2)
    for missing in words.describe_untimed_measures(graphs):
        click.echo(escape_control_characters(missing))


def print_observers(experiment: Experiment) -> None:
    """Print the effect of each observer on the steps of each run."""
    effects = [(run.name, compute_observer_effect(run)) for run in experiment.runs]
    print_heading("Profiler overhead")
    for name, effect in effects:
        if isinstance(effect, Missing):
            click.echo(escape_control_characters(f"{name}: not available: {effect.reason}."))
        else:
            _print_effect(effect)


def _print_effect(effect: ObserverEffect) -> None:
    click.echo(escape_control_characters(observers.describe_observer_effect(effect)))
    for reason in observers.list_missing_observers(effect):
        click.echo(escape_control_characters(f"Not tested: {reason}."))
    headings = [effect.run]
    for title, _ in observers.MEASURE_TITLES.values():
        headings += [title, ""]
    headings.append("records/step")
    table = create_table(*headings, right=range(1, len(headings)))
    for row in effect.rows:
        cells = [build_cell(observers.OBSERVER_TITLES[row.observer])]
        for measure in StepMeasure:
            effect_of_row = row.effects.get(measure)
            cells.append(
                build_cell(ABSENT_TEXT if effect_of_row is None else format_ns(effect_of_row.value))
            )
            is_significant = effect_of_row is not None and effect_of_row.is_significant is not None
            cells.append(
                build_cell(
                    format_ratio(effect_of_row.ratio) if effect_of_row and is_significant else "",
                    "dim",
                )
            )
        cells.append(build_cell(format_count(None if row.records is None else round(row.records))))
        table.add_row(*cells)
    print_table(table, lead=2)
    for row in effect.rows:
        for measure, reason in row.absent.items():
            title = observers.MEASURE_TITLES[measure][0]
            observer = observers.OBSERVER_TITLES[row.observer]
            click.echo(escape_control_characters(f"{observer}: no {title!r}: {reason}."))
    noise = effect.noise[StepMeasure.STEP]
    click.echo(
        f"Two processes with nothing attached differ by {format_percent(noise - 1)} per step."
    )
