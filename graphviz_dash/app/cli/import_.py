"""``graphviz-dash import``: builds run bundles from files of other tools."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from graphviz_dash.app.documents.imports import build_import_document
from graphviz_dash.cli.loading import add_executor_options
from graphviz_dash.cli.options import JSON_OPTION
from graphviz_dash.cli.progress_bar import show_progress
from graphviz_dash.cli.text.output import print_json, print_text
from graphviz_dash.exports.documents.values import display_path
from graphviz_dash.importers.bundles import ImportedRun, import_files
from graphviz_dash.importers.locations import FILE_SCHEME, find_locations, is_address
from graphviz_dash.importers.many import SkippedFiles, import_batch
from graphviz_dash.importers.tasks import create_executor
from graphviz_dash.ingest.formats.registry import detect_format
from graphviz_dash.model.run import ExecutionMode
from graphviz_dash.units import format_bytes

_MAX_SHOWN = 20
_OTHER_MODES = (mode for mode in ExecutionMode if not (mode.is_recorded or mode.is_planned))
_MODES = ("recorded", *(mode.value for mode in _OTHER_MODES))


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
@add_executor_options
@JSON_OPTION
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
    files = tuple(file.removeprefix(FILE_SCHEME) for file in files)
    single = not any(is_address(file) or Path(file).is_dir() for file in files)
    if join or (single and scheduler is None):
        results: list[ImportedRun | SkippedFiles] = [*_import_joined(files, output, mode, join)]
    else:
        results = _import_separately(files, output, mode, scheduler, workers)
    written_results = [result for result in results if not isinstance(result, SkippedFiles)]
    refused_results = [result for result in results if isinstance(result, SkippedFiles)]
    if as_json:
        print_json("import", build_import_document(written_results, refused_results))
    else:
        for run in written_results:
            _print_imported(run)
    _print_refused(refused_results)
    if not written_results:
        raise click.exceptions.Exit(2)


def _import_joined(
    files: tuple[str, ...], output: Path, mode: str, join: bool
) -> tuple[ImportedRun, ...]:
    """Import all files in this process; nothing is written if any file is invalid."""
    paths = list(_list_files(files)) if join else [Path(file) for file in files]
    with show_progress(paths[0].name if len(paths) == 1 else f"{len(paths)} files"):
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


def _list_files(names: tuple[str, ...]) -> Iterator[Path]:
    """Yield the given files, and files of a known kind in given folders."""
    for text in names:
        if not Path(text).is_dir():
            yield Path(text)
            continue
        for location in find_locations([text]):
            file = Path(location.address)
            if location.problem or location.is_bundle or not file.stat().st_size:
                continue
            if detect_format(file) is not None:
                yield file


def _import_separately(
    files: tuple[str, ...], output: Path, mode: str, scheduler: str | None, workers: int | None
) -> list[ImportedRun | SkippedFiles]:
    locations = find_locations(files)
    results: list[ImportedRun | SkippedFiles] = []
    for result in import_batch(
        locations, output, lambda: create_executor(scheduler, workers), mode=ExecutionMode(mode)
    ):
        results.append(result)
        if sys.stderr.isatty():
            click.echo(f"\r{len(results):,} done of {len(locations):,} files", nl=False, err=True)
    if sys.stderr.isatty():
        click.echo(err=True)
    return sorted(results, key=_get_sort_key)


def _get_sort_key(result: ImportedRun | SkippedFiles) -> tuple[bool, str]:
    path = getattr(result, "path", None)
    return path is None, str(path or "")


def _print_refused(refused: list[SkippedFiles]) -> None:
    for group in refused[:_MAX_SHOWN]:
        print_text(f"not imported: {', '.join(group.files)}: {group.reason}", err=True)
    if len(refused) > _MAX_SHOWN:
        click.echo(f"and {len(refused) - _MAX_SHOWN:,} more", err=True)


def _print_imported(written: ImportedRun) -> None:
    print_text(display_path(written.path))
    for source in written.sources:
        method = f"; {source.method}" if source.method else ""
        print_text(f"  {source.name}: {source.kind}, {format_bytes(source.bytes)}{method}")
    for fact in written.absent:
        print_text(f"  missing {fact.fact}: {fact.reason}")
