"""``graphviz-dash launch``: what launching graphs costs: synthetic graphs, and a program's own."""

from __future__ import annotations

from pathlib import Path

import click

from graphviz_dash.bundle.launch import LAUNCH_FILE, is_launch, read_launch
from graphviz_dash.bundle.references import published_launch, reference_launches
from graphviz_dash.cli.loading import loaded_experiment
from graphviz_dash.cli.text.output import (
    print_json,
)
from graphviz_dash.exports.documents.values import shown
from graphviz_dash.features.launch.analysis.launch_comparison import (
    beside_published,
    compare_launches,
)
from graphviz_dash.features.launch.analysis.launch_costs import LaunchCosts, launch_costs
from graphviz_dash.features.launch.document import launch_document
from graphviz_dash.features.launch.own_graphs import print_observers, print_own
from graphviz_dash.features.launch.text import (
    print_launch_comparison,
    print_published,
    print_recording,
)
from graphviz_dash.model.run import Experiment


@click.command("launch")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--compare", "only_compare", is_flag=True, help="Print the comparison of recordings alone."
)
@click.option(
    "--published", is_flag=True, help="Also set the recordings beside what NVIDIA published."
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON document (docs/reference/json.md)."
)
def launch_command(
    paths: tuple[Path, ...], only_compare: bool, published: bool, as_json: bool
) -> None:
    """Show what launching graphs costs: recordings by bench launch, and the graphs of experiments.

    Of a recording it prints how launch time grows with the graph, what roots and other kinds of
    nodes add, and the median of every measure; several are compared. Of an experiment
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
    publication = published_launch() if published else None
    rows = beside_published(publication, recordings) if publication else ()
    if as_json:
        document = launch_document(
            recordings, comparison, experiments, references, publication, rows
        )
        print_json("launch", document)
        return
    for name, costs in recordings.items():
        if not only_compare or comparison is None:
            print_recording(name, costs)
    if comparison is not None:
        print_launch_comparison(comparison)
    if publication is not None:
        print_published(publication, rows, list(recordings))
    for name, experiment in experiments.items():
        print_own(name, experiment, references)
        print_observers(experiment)
