"""What the commands of ``graphviz-dash export`` share: where to write, and what was written."""

from __future__ import annotations

from pathlib import Path

import click

from graphviz_dash.errors import printable

output_option = click.option(
    "-o",
    "--output",
    "file",
    required=True,
    type=click.Path(path_type=Path),
    help="File to write.",
)
"""The option ``-o``, given as ``file``."""


def print_file(file: Path, content: str) -> None:
    """The path on stdout, for scripts; on stderr what is in the file."""
    click.echo(content, err=True)
    click.echo(printable(str(file)))
