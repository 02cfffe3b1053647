"""``graphviz-dash import``: builds run bundles from files of other tools."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from graphviz_dash.app.documents.imports import import_document
from graphviz_dash.cli.loading import executor_options, progress_shown
from graphviz_dash.cli.text.output import print_json
from graphviz_dash.errors import printable
from graphviz_dash.exports.documents.values import shown
from graphviz_dash.importers.bundles import Imported, import_files
from graphviz_dash.importers.locations import find_locations, is_address
from graphviz_dash.importers.many import NotImported, import_many
from graphviz_dash.importers.tasks import executor_for
from graphviz_dash.ingest.formats.registry import recognised_format
from graphviz_dash.model.run import ExecutionMode
from graphviz_dash.units import format_bytes

_SHOWN = 20
_MODES = (
    "recorded",
    "eager",
    "graph",
    "callables",
    "partial",
    "compile-default",
    "compile-graph",
    "compile",
)


@click.command("import")
@click.argument("files", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Experiment folder; each run becomes a subfolder.",
)
@click.option(
    "--mode",
    type=click.Choice(_MODES),
    metavar="MODE",
    default="recorded",
    show_default=True,
    help="Mode in which the program ran; eager makes the run the baseline. "
    f"One of {', '.join(_MODES)}.",
)
@click.option("--join", is_flag=True, help="Treat all FILES as one run, regardless of their names.")
@executor_options
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def import_command(
    files: tuple[str, ...],
    output: Path,
    mode: str,
    join: bool,
    scheduler: str | None,
    workers: int | None,
    as_json: bool,
) -> None:
    """Build run bundles in DIR from FILES, folders or addresses (s3://, gs://).

    Accepts Kineto traces, the driver's debug DOT, SQLite exports of Nsight Systems, and graph data
    and memory snapshots of torch, detected by content. Capture traces, replay traces and DOT files
    are joined into one run if their names differ in no other word.
    """
    single = not any(is_address(file) or Path(file).is_dir() for file in files)
    if join or (single and scheduler is None):
        results: list[Imported | NotImported] = [*_together(files, output, mode, join)]
    else:
        results = _each(files, output, mode, scheduler, workers)
    written = [result for result in results if not isinstance(result, NotImported)]
    refused = [result for result in results if isinstance(result, NotImported)]
    if as_json:
        print_json("import", import_document(written, refused))
    else:
        for run in written:
            _print(run)
    _print_refused(refused)
    if not written:
        raise click.exceptions.Exit(2)


def _together(files: tuple[str, ...], output: Path, mode: str, join: bool) -> tuple[Imported, ...]:
    """Import all files in this process; nothing is written if any file is invalid."""
    paths = list(_files(files)) if join else [Path(file) for file in files]
    with progress_shown(paths[0].name if len(paths) == 1 else f"{len(paths)} files"):
        return import_files(
            paths,
            output,
            mode=ExecutionMode(mode),
            join=join,
            # File names only: a bundle records no path of its maker's machine.
            command=(
                *("graphviz-dash", "import", *(path.name for path in paths), "--mode", mode),
                *(("--join",) if join else ()),
            ),
            announce=lambda line: click.echo(line, err=True),
        )


def _files(given: tuple[str, ...]) -> Iterator[Path]:
    """Yield the given files, and files of a known kind in given folders."""
    for text in given:
        if not Path(text).is_dir():
            yield Path(text)
            continue
        for location in find_locations([text]):
            file = Path(location.address)
            if location.unreadable or location.bundle or not file.stat().st_size:
                continue
            if recognised_format(file) is not None:
                yield file


def _each(
    files: tuple[str, ...], output: Path, mode: str, scheduler: str | None, workers: int | None
) -> list[Imported | NotImported]:
    """Import each run separately, in parallel."""
    locations = find_locations(files)
    results: list[Imported | NotImported] = []
    for result in import_many(
        locations, output, lambda: executor_for(scheduler, workers), mode=ExecutionMode(mode)
    ):
        results.append(result)
        if sys.stderr.isatty():
            click.echo(f"\r{len(results):,} done of {len(locations):,} files", nl=False, err=True)
    if sys.stderr.isatty():
        click.echo(err=True)
    return sorted(results, key=_order)


def _order(result: Imported | NotImported) -> tuple[bool, str]:
    path = getattr(result, "path", None)
    return path is None, str(path or "")


def _print_refused(refused: list[NotImported]) -> None:
    for group in refused[:_SHOWN]:
        click.echo(printable(f"not imported: {', '.join(group.files)}: {group.reason}"), err=True)
    if len(refused) > _SHOWN:
        click.echo(f"and {len(refused) - _SHOWN:,} more", err=True)


def _print(written: Imported) -> None:
    click.echo(printable(shown(written.path)))
    for source in written.sources:
        method = f"; {source.method}" if source.method else ""
        click.echo(
            printable(f"  {source.name}: {source.kind}, {format_bytes(source.bytes)}{method}")
        )
    for fact in written.absent:
        click.echo(printable(f"  missing {fact.fact}: {fact.reason}"))
