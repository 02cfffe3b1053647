"""``graphviz-dash export``: files for other tools."""

from __future__ import annotations

import click

from graphviz_dash.app.cli.exporting.comparison import equation, html, kernels, pairs
from graphviz_dash.features.graph.export_command import dot, nodes
from graphviz_dash.features.perfetto.export_command import perfetto


@click.group()
def export() -> None:
    """Write files for other tools."""


for command in (perfetto, dot, nodes, kernels, equation, pairs, html):
    export.add_command(command)
