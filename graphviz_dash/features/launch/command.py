"""``graphviz-dash launch``: launch costs of synthetic graphs and of a program's graphs."""

from __future__ import annotations

from pathlib import Path

import click

from graphviz_dash.bundle.launch import LAUNCH_FILE, is_launch, read_launch
from graphviz_dash.bundle.references import find_reference_launches, read_published_launch
from graphviz_dash.cli.loading import open_experiment
from graphviz_dash.cli.options import JSON_OPTION
from graphviz_dash.cli.text.output import (
    print_json,
)
from graphviz_dash.exports.documents.values import display_path
from graphviz_dash.features.launch.analysis.launch_comparison import (
    compare_launches,
    compare_published,
)
from graphviz_dash.features.launch.analysis.launch_costs import LaunchCosts, analyze_launch_costs
from graphviz_dash.features.launch.document import build_launch_document
from graphviz_dash.features.launch.text import (
    print_launch_comparison,
    print_observers,
    print_own_graphs,
    print_published,
    print_recording,
)
from graphviz_dash.model.run import Experiment


@click.command("launch")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--compare", "only_compare", is_flag=True, help="Print only the comparison of recordings."
)
@click.option(
    "--published", is_flag=True, help="Also compare the recordings with NVIDIA's published times."
)
@JSON_OPTION
def launch_command(
    paths: tuple[Path, ...], only_compare: bool, published: bool, as_json: bool
) -> None:
    """Show launch costs: recordings by bench launch, and the graphs of experiments.

    For a recording, prints how launch time grows with graph size, the cost of roots and other node
    kinds, and the median of every measure. Several recordings are compared. For an experiment,
    prints the costs of each captured graph next to a chain of its size, and the profiler overhead
    if the experiment was collected with --observers.
    """
    recordings: dict[str, LaunchCosts] = {}
    experiments: dict[str, Experiment] = {}
    for path in paths:
        if is_launch(path) or path.name == LAUNCH_FILE or not path.is_dir():
            recordings[display_path(path)] = analyze_launch_costs(read_launch(path))
        else:
            experiments[display_path(path)] = open_experiment(path)
    references = dict(recordings)
    if experiments:
        shipped = find_reference_launches()
        references |= {
            name: analyze_launch_costs(read_launch(path)) for name, path in shipped.items()
        }
    comparison = compare_launches(recordings)
    publication = read_published_launch() if published else None
    rows = compare_published(publication, recordings) if publication else ()
    if as_json:
        document = build_launch_document(
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
        print_own_graphs(name, experiment, references)
        print_observers(experiment)
