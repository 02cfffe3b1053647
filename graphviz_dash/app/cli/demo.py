"""``graphviz-dash demo``: the dashboard with the included experiments."""

from __future__ import annotations

import click

from graphviz_dash.app.cli.serve import ServeOptions, add_server_options, serve_folders
from graphviz_dash.bundle.references import find_sample_experiments
from graphviz_dash.errors import MissingRequirementError


@click.command()
@add_server_options
def demo(serving: ServeOptions) -> None:
    """Serve the dashboard on the included sample experiments.

    The samples were recorded on an NVIDIA H200. Viewing them needs neither a GPU nor torch. Prints
    the address on stdout if the port is free, and serves until interrupted.
    """
    folder = find_sample_experiments()
    if folder is None:
        raise MissingRequirementError(
            "No samples are installed. Install the wheel of graphviz-dash, or serve your own "
            "experiments: graphviz-dash serve PATH"
        )
    serve_folders((folder,), serving)
