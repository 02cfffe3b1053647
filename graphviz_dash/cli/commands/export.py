"""``graphviz-dash export``: files for other tools."""

from __future__ import annotations

import click

from graphviz_dash.cli.exporting.comparison import equation, html, kernels, pairs
from graphviz_dash.cli.exporting.graph import dot, nodes
from graphviz_dash.cli.exporting.trace import perfetto


@click.group()
def export() -> None:
    """Write files for other tools."""


for command in (perfetto, dot, nodes, kernels, equation, pairs, html):
    export.add_command(command)
