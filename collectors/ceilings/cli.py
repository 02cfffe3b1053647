"""The ``graphviz-dash bench limits`` command. Only its subprocess imports torch."""

from __future__ import annotations

from pathlib import Path

import click

from collectors.ceilings.store import keep, measure_in_process
from collectors.collection.requirements import require
from graphviz_dash.bundle.ceilings import write_ceilings
from graphviz_dash.units import format_ns, pluralize


@click.command("limits", short_help="Measure bandwidth and arithmetic rates of the GPU.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write the limits to this file, for efficiency --limits.",
)
def measure_limits(output: Path | None) -> None:
    """Measure the limits of the GPU: memory bandwidth, matrix rates and an empty kernel.

    Later recordings on this GPU contain the result. Otherwise the first `collect --workload`
    measures them, unless `--no-limits` is given. The GPU must be idle.
    """
    require("torch", "cuda.bindings")
    ceilings = measure_in_process()
    cache_file = keep(ceilings, ceilings.torch)
    if output is not None:
        write_ceilings(output, ceilings)
    points = pluralize(len(ceilings.memory) + len(ceilings.arithmetic), "measurement")
    launch_ns = min(ceilings.empty_kernel_ns)
    click.echo(f"{ceilings.gpu.name}: {points}, an empty kernel lasts {format_ns(launch_ns)}")
    for file in (cache_file, output):
        if file is not None:
            click.echo(file)
