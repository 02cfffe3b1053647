"""``graphviz-dash memory``: what the memory of an experiment's runs is made of."""

from __future__ import annotations

from pathlib import Path

import click

from graphviz_dash.analysis.comparison.compare import compare
from graphviz_dash.cli.loading import loaded_experiment
from graphviz_dash.cli.text.output import print_json
from graphviz_dash.features.memory.comparison import compare_memory
from graphviz_dash.features.memory.document import memory_document
from graphviz_dash.features.memory.text import print_memory


@click.command("memory")
@click.argument("experiment", type=click.Path(path_type=Path))
@click.option(
    "--baseline",
    metavar="MODE",
    help="Mode or run that the others are compared with.  [default: eager]",
)
@click.option(
    "--graphs",
    "count",
    default=10,
    show_default=True,
    type=click.IntRange(0),
    help="Graphs to list of each run, the largest first; 0 for none.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON document (docs/reference/json.md)."
)
def memory_command(experiment: Path, baseline: str | None, count: int, as_json: bool) -> None:
    """Show what CUDA graphs cost in memory in the runs of EXPERIMENT.

    The device memory of each run in parts that add up, the difference to the baseline, and which
    part of its private pool each graph has for itself and which it shares.
    """
    loaded = loaded_experiment(experiment)
    result = compare_memory(compare(loaded, baseline))
    if as_json:
        print_json("memory", memory_document(loaded, result, count))
    else:
        print_memory(result, count)
