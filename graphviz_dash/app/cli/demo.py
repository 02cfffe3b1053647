"""``graphviz-dash demo``: the dashboard on the experiments that come along."""

from __future__ import annotations

import click

from graphviz_dash.app.cli.serve import Serving, serve_folders, server_options
from graphviz_dash.bundle.references import sample_experiments
from graphviz_dash.errors import MissingRequirementError


@click.command()
@server_options
def demo(serving: Serving) -> None:
    """Serve the dashboard on the sample experiments that come along.

    They were recorded on an NVIDIA H200; neither a GPU nor torch is needed to look at them. Prints
    the address on stdout when the port is free, and serves until it is interrupted.
    """
    folder = sample_experiments()
    if folder is None:
        raise MissingRequirementError(
            "No samples were installed. Install the wheel of graphviz-dash, or serve experiments "
            "of your own: graphviz-dash serve PATH"
        )
    serve_folders((folder,), serving)
