"""Recordings of launch costs on the terminal, single and compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
from graphviz_dash.features.launch.analysis.launch_comparison import LaunchComparison, PublishedTime
from graphviz_dash.features.launch.analysis.launch_costs import LaunchCosts
from graphviz_dash.features.launch.analysis.launch_fit import GrowthFit
from graphviz_dash.features.launch.analysis.observer_effect import (
    ObserverEffect,
    StepMeasure,
    compute_observer_effect,
)
from graphviz_dash.features.launch.analysis.own_graphs import list_program_graphs
from graphviz_dash.features.launch.narrative import (
    MEASURE_TITLES,
    describe_extra_costs,
    describe_launch_comparison,
    describe_launch_costs,
    format_chain_family,
    format_interval,
    format_topology,
)
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.launch import LaunchMeasure, PublishedLaunch
from graphviz_dash.model.run import Experiment
from graphviz_dash.units import format_count, format_ns, format_percent, format_ratio


def print_recording(path: str, costs: LaunchCosts) -> None:
    """Print the growth of each measure with graph size, and every median."""
    recording = costs.recording
    machine = recording.environment
    click.echo(escape_control_characters(describe_launch_costs(costs)))
    status = "" if recording.complete else ", interrupted"
    click.echo(
        escape_control_characters(
            f"{path}: {machine.cpu}, driver {machine.driver or 'unknown'}, CUDA "
            f"{machine.cuda_runtime}, {recording.created[:10]}, {recording.trials} trials{status}"
        )
    )
    for text in describe_extra_costs(costs):
        click.echo(text)
    print_heading("Growth along a linear chain")
    _print_fits(costs.lines)
    for family, fits in costs.chains.items():
        print_heading(f"Growth over {format_chain_family(family)}, by total nodes")
        _print_fits(fits)
    print_heading("Medians")
    measures = [
        measure for measure in LaunchMeasure if any(measure in row.timings for row in costs.rows)
    ]
    headings = ["graph", *(MEASURE_TITLES[measure] for measure in measures)]
    table = create_table(*headings, right=range(1, len(headings)))
    for row in costs.rows:
        values = (row.get_median(measure) for measure in measures)
        texts = (ABSENT_TEXT if value is None else format_ns(value) for value in values)
        table.add_row(
            build_cell(format_topology(row.topology)), *(build_cell(text) for text in texts)
        )
    print_table(table)


def _print_fits(fits: Mapping[LaunchMeasure, GrowthFit]) -> None:
    headings = ("measure", "base", "95%", "per node", "95%", "from node", "95%")
    table = create_table(*headings, right=(1, 3, 5))
    for measure, fit in fits.items():
        knees = fit.knee_interval
        table.add_row(
            build_cell(MEASURE_TITLES[measure]),
            build_cell(format_ns(fit.base_ns)),
            build_cell(format_interval(fit.base_interval), "dim"),
            build_cell(f"{fit.slope_ns:.2f} ns"),
            build_cell(format_interval(fit.slope_interval), "dim"),
            build_cell(format_count(fit.knee)),
            build_cell(f"{knees.low:,.0f} to {knees.high or 0:,.0f}", "dim"),
        )
    print_table(table)


def print_launch_comparison(comparison: LaunchComparison) -> None:
    """Print medians side by side."""
    print_heading("Medians and their ratios to the first recording")
    click.echo(escape_control_characters(describe_launch_comparison(comparison)))
    names = comparison.names
    headings = ["measure", "graph"]
    for name in names:
        headings += [name] if name is names[0] else [name, ""]
    headings += ["difference", "spread", ""]
    table = create_table(*headings, right=range(2, len(headings) - 1))
    for difference in comparison.differences:
        cells = [
            build_cell(MEASURE_TITLES[difference.measure]),
            build_cell(format_topology(difference.topology)),
        ]
        for column, (median, ratio) in enumerate(
            zip(difference.medians, difference.ratios, strict=True)
        ):
            cells.append(build_cell(format_ns(median)))
            if column:
                cells.append(build_cell(format_ratio(ratio)))
        cells += [
            build_cell(format_ns(difference.largest_gap), "dim"),
            build_cell(format_ns(difference.spread), "dim"),
        ]
        table.add_row(*cells, build_cell("within" if difference.is_within_spread else "outside"))
    print_table(table)


def print_published(
    publication: PublishedLaunch, rows: Sequence[PublishedTime], names: list[str]
) -> None:
    """Print published times next to the recordings ``names``."""
    print_heading(f"Published: {publication.title}")
    click.echo(escape_control_characters(f"{publication.authors}; {publication.address}"))
    click.echo(
        escape_control_characters(
            f"On {publication.gpu}, {publication.cpu}, with toolkits {publication.older} and "
            f"{publication.newer}; {publication.reading_method}."
        )
    )
    headings = [
        "measure",
        "chains",
        "nodes per chain",
        "toolkit 11.8",
        "toolkit 12.6",
        *names,
        "from",
    ]
    table = create_table(*headings, right=range(1, len(headings) - 1))
    for row in rows:
        medians = [
            ABSENT_TEXT if (median := row.medians[name]) is None else format_ns(median)
            for name in names
        ]
        table.add_row(
            build_cell(MEASURE_TITLES[row.measure]),
            build_cell(format_count(row.chains)),
            build_cell(format_count(row.length)),
            *(
                build_cell(ABSENT_TEXT if time is None else format_ns(time))
                for time in (row.older_ns, row.newer_ns)
            ),
            *(build_cell(text) for text in medians),
            build_cell(row.source, "dim"),
        )
    print_table(table)
    for statement in publication.statements:
        click.echo(escape_control_characters(statement))


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
    """Print the effect of each observer on each run."""
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
