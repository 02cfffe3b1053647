"""``graphviz-dash import``: run bundles out of files that other programs wrote."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from graphviz_dash.imports.bundles import Imported

SCHEMA_VERSION = 1
_MODES = ("recorded", "eager", "graph", "callables", "partial", "compile")


@click.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of the experiment; each run becomes a folder in it.",
)
@click.option(
    "--mode",
    type=click.Choice(_MODES),
    default="recorded",
    show_default=True,
    help="How the program ran: eager makes the run the one that others are compared with.",
)
@click.option("--join", is_flag=True, help="All FILES are of one run, whatever they are called.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def import_command(
    files: tuple[Path, ...], output: Path, mode: str, join: bool, as_json: bool
) -> None:
    """Make run bundles of FILES in the folder DIR.

    Takes Kineto traces, the driver's debug DOT, SQLite exports of Nsight Systems, graph data and
    memory snapshots of torch, and tells them apart by their content. The trace of a capture, that
    of its replays and a DOT whose names differ in no other word are joined into one run.
    """
    from graphviz_dash.cli.output import print_json, shown
    from graphviz_dash.imports.bundles import import_files
    from graphviz_dash.model.run import ExecutionMode

    written = import_files(
        files,
        output,
        mode=ExecutionMode(mode),
        join=join,
        # File names only: a bundle records no path of its maker's machine.
        command=(
            *("graphviz-dash", "import", *(file.name for file in files), "--mode", mode),
            *(("--join",) if join else ()),
        ),
        tell=lambda line: click.echo(line, err=True),
    )
    if as_json:
        documents = [_document(one, shown(one.path)) for one in written]
        print_json("import", SCHEMA_VERSION, {"runs": documents})
        return
    for one in written:
        _print(one)


def _print(written: Imported) -> None:
    from graphviz_dash.cli.output import shown
    from graphviz_dash.errors import printable
    from graphviz_dash.units import format_bytes

    click.echo(printable(shown(written.path)))
    for source in written.sources:
        told = f"; {source.method}" if source.method else ""
        click.echo(printable(f"  {source.name}: {source.kind}, {format_bytes(source.bytes)}{told}"))
    for fact in written.absent:
        click.echo(printable(f"  without {fact.fact}: {fact.reason}"))


def _document(written: Imported, path: str) -> dict[str, object]:
    return {
        "path": path,
        "sources": [
            {
                "name": source.name,
                "kind": source.kind,
                "bytes": source.bytes,
                "sha256": source.sha256,
                "method": source.method,
            }
            for source in written.sources
        ],
        "absent": [{"fact": fact.fact, "reason": fact.reason} for fact in written.absent],
    }
