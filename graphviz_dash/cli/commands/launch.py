"""``graphviz-dash launch``: what launching graphs costs: toy graphs, and a program's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from graphviz_dash.analysis.launch.launch_comparison import (
    LaunchComparison,
    PublishedTime,
    beside_published,
    compare_launches,
)
from graphviz_dash.analysis.launch.launch_costs import LaunchCosts, launch_costs
from graphviz_dash.analysis.launch.launch_fit import GrowthFit
from graphviz_dash.bundle.launch import LAUNCH_FILE, is_launch, read_launch
from graphviz_dash.bundle.references import published_launch, reference_launches
from graphviz_dash.cli.loading import loaded_experiment
from graphviz_dash.cli.text.output import (
    ABSENT,
    cell,
    plain_table,
    print_heading,
    print_json,
    print_table,
)
from graphviz_dash.cli.text.own_graphs import print_observers, print_own
from graphviz_dash.errors import printable
from graphviz_dash.exports.documents.launch import launch_document
from graphviz_dash.exports.documents.values import shown
from graphviz_dash.model.launch import LaunchMeasure, PublishedLaunch
from graphviz_dash.model.run import Experiment
from graphviz_dash.narrative.launch import (
    MEASURE_TITLES,
    comparison_sentence,
    costs_sentence,
    extra_sentences,
    family_name,
    interval_text,
    topology_name,
)
from graphviz_dash.units import format_count, format_ns, format_ratio


@click.command("launch")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--compare", "only_compare", is_flag=True, help="Print the comparison of recordings alone."
)
@click.option(
    "--published", is_flag=True, help="Also set the recordings beside what NVIDIA published."
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document (docs/cli.md).")
def launch_command(
    paths: tuple[Path, ...], only_compare: bool, published: bool, as_json: bool
) -> None:
    """Show what launching graphs costs: recordings by bench launch, and the graphs of experiments.

    Of a recording it prints how launch time grows with the graph, what roots and other kinds of
    nodes add, and the median of every measure; several are laid over each other. Of an experiment
    it prints the life of each captured graph beside a chain of its size, and what each profiler
    does to its steps, if it was collected with --observers.
    """
    recordings: dict[str, LaunchCosts] = {}
    experiments: dict[str, Experiment] = {}
    for path in paths:
        if is_launch(path) or path.name == LAUNCH_FILE or not path.is_dir():
            recordings[shown(path)] = launch_costs(read_launch(path))
        else:
            experiments[shown(path)] = loaded_experiment(path)
    references = dict(recordings)
    if experiments:
        shipped = reference_launches()
        references |= {name: launch_costs(read_launch(path)) for name, path in shipped.items()}
    comparison = compare_launches(recordings)
    known = published_launch() if published else None
    rows = beside_published(known, recordings) if known else ()
    if as_json:
        document = launch_document(recordings, comparison, experiments, references, known, rows)
        print_json("launch", document)
        return
    for name, costs in recordings.items():
        if not only_compare or comparison is None:
            _print_recording(name, costs)
    if comparison is not None:
        _print_comparison(comparison)
    if known is not None:
        _print_published(known, rows, list(recordings))
    for name, experiment in experiments.items():
        print_own(name, experiment, references)
        print_observers(experiment)


def _print_recording(path: str, costs: LaunchCosts) -> None:
    recording = costs.recording
    machine = recording.environment
    click.echo(printable(costs_sentence(costs)))
    whole = "" if recording.complete else ", interrupted"
    trials = max((len(v) for s in recording.series for v in s.samples.values()), default=0)
    click.echo(
        printable(
            f"{path}: {machine.cpu}, driver {machine.driver or 'unknown'}, CUDA "
            f"{machine.cuda_runtime}, {recording.created[:10]}, {trials} trials{whole}"
        )
    )
    for text in extra_sentences(costs):
        click.echo(text)
    print_heading("How each grows along straight lines")
    _print_fits(costs.lines)
    for family, fits in costs.chains.items():
        print_heading(f"How each grows over {family_name(family)}, by nodes in all")
        _print_fits(fits)
    print_heading("Medians")
    measures = [one for one in LaunchMeasure if any(one in row.timings for row in costs.rows)]
    headings = ["graph", *(MEASURE_TITLES[one] for one in measures)]
    table = plain_table(*headings, right=range(1, len(headings)))
    for row in costs.rows:
        values = (row.median(one) for one in measures)
        texts = (ABSENT if value is None else format_ns(value) for value in values)
        table.add_row(cell(topology_name(row.topology)), *(cell(text) for text in texts))
    print_table(table)


def _print_fits(fits: Mapping[LaunchMeasure, GrowthFit]) -> None:
    headings = ("measure", "base", "95%", "a node", "95%", "from nodes", "95%")
    table = plain_table(*headings, right=(1, 3, 5))
    for measure, fit in fits.items():
        knees = fit.knee_interval
        table.add_row(
            cell(MEASURE_TITLES[measure]),
            cell(format_ns(fit.base_ns)),
            cell(interval_text(fit.base_interval), "dim"),
            cell(f"{fit.slope_ns:.2f} ns"),
            cell(interval_text(fit.slope_interval), "dim"),
            cell(format_count(fit.knee)),
            cell(f"{knees.low:,.0f} to {knees.high or 0:,.0f}", "dim"),
        )
    print_table(table)


def _print_comparison(comparison: LaunchComparison) -> None:
    print_heading("Medians, and what they are divided by those of the first")
    click.echo(printable(comparison_sentence(comparison)))
    names = comparison.names
    headings = ["measure", "graph"]
    for name in names:
        headings += [name] if name is names[0] else [name, ""]
    headings += ["apart", "spread", ""]
    table = plain_table(*headings, right=range(2, len(headings) - 1))
    for one in comparison.differences:
        cells = [cell(MEASURE_TITLES[one.measure]), cell(topology_name(one.topology))]
        for place, (median, ratio) in enumerate(zip(one.medians, one.ratios, strict=True)):
            cells.append(cell(format_ns(median)))
            if place:
                cells.append(cell(format_ratio(ratio)))
        cells += [cell(format_ns(one.apart), "dim"), cell(format_ns(one.shown), "dim")]
        table.add_row(*cells, cell("within" if one.within else "beyond"))
    print_table(table)


def _print_published(
    known: PublishedLaunch, rows: Sequence[PublishedTime], names: list[str]
) -> None:
    print_heading(f"Published: {known.title}")
    click.echo(printable(f"{known.authors}; {known.address}"))
    click.echo(printable(f"Straight lines on {known.gpu}, {known.cpu}; {known.read_as}."))
    headings = ["measure", "nodes", "toolkit 11.8", "toolkit 12.6", "quoted by", *names]
    table = plain_table(*headings, right=range(1, len(headings)))
    for row in rows:
        mine = [ABSENT if (one := row.medians[name]) is None else format_ns(one) for name in names]
        table.add_row(
            cell(MEASURE_TITLES[row.measure]),
            cell(format_count(row.nodes)),
            cell(format_ns(row.before)),
            cell(format_ns(row.after)),
            cell(format_count(row.quoted_by), "dim"),
            *(cell(text) for text in mine),
        )
    print_table(table)
    click.echo(printable(f"Not here: {'; '.join(known.absent)}."))
