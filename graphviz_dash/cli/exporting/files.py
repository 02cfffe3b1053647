"""Shared parts of the ``graphviz-dash export`` commands."""

from __future__ import annotations

from pathlib import Path

import click

from graphviz_dash.cli.text.output import print_text

OUTPUT_OPTION = click.option(
    "-o",
    "--output",
    "file",
    required=True,
    type=click.Path(path_type=Path),
    help="File to write.",
)


def print_file(file: Path, content: str) -> None:
    """Print the path on stdout and the content on stderr."""
    click.echo(content, err=True)
    print_text(str(file))
