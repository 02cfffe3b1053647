"""Bulk import: each run separately, in parallel, resumable after an interrupt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec import Struct

from graphviz_dash.bundle.staging import create_scratch_folder
from graphviz_dash.errors import InputError
from graphviz_dash.importers.bundles import ImportedRun, import_files
from graphviz_dash.importers.group import (
    CAPTURES_FOLDER,
    build_run_name,
    get_common_name,
    hash_text,
    strip_extensions,
)
from graphviz_dash.importers.locations import Location, provide_local_copy
from graphviz_dash.importers.tasks import run_all
from graphviz_dash.ingest.formats.registry import require_format
from graphviz_dash.ingest.limits import DEFAULT_LIMITS, Limits
from graphviz_dash.model.run import ExecutionMode


class SkippedFiles(Struct, frozen=True):
    """Files that were not imported as a run."""

    files: tuple[str, ...]
    reason: str


class _Task(Struct, frozen=True):
    """Import of one run."""

    locations: tuple[Location, ...]
    folder: Path
    prefix: str
    """Prefix of the run's name. May be empty."""
    mode: ExecutionMode
    limits: Limits


def import_batch(
    locations: Sequence[Location],
    folder: Path,
    make: Callable[[], Any],
    *,
    mode: ExecutionMode = ExecutionMode.RECORDED,
    limits: Limits = DEFAULT_LIMITS,
) -> Iterator[ImportedRun | SkippedFiles]:
    """Import files as run bundles into ``folder``, yielding results as completed.

    An unreadable file affects only its run. Workers write to ``folder`` directly, so it must be
    shared between machines. An existing run of the same files counts as imported, so an interrupted
    import resumes. Bundles and files of unknown kind are skipped.
    """
    for location in locations:
        if location.problem:
            yield SkippedFiles((location.address,), location.problem)
    readable = [location for location in locations if not location.problem]
    tasks = [
        _Task(tuple(members), folder.resolve(), prefix, mode, limits)
        for prefix, members in _group_by_run(readable)
    ]
    for result in run_all(_import_run, tasks, make, _build_failure):
        yield from result


def _group_by_run(locations: Sequence[Location]) -> list[tuple[str, list[Location]]]:
    by_run: dict[tuple[str, str], list[Location]] = {}
    folders = {location.parent for location in locations}
    capture_folders = {f"{folder}/{CAPTURES_FOLDER}" for folder in folders} & folders
    for location in locations:
        if not location.is_bundle:
            by_run.setdefault(_get_run_key(location, capture_folders), []).append(location)
    names = {
        key: build_run_name(key[1] or strip_extensions(Path(of[0].name)))
        for key, of in by_run.items()
    }
    prefixes = dict.fromkeys(by_run, "")
    # Disambiguate by folder, then by the full address: different names can map to equal folder
    # names.
    for build_prefix in (_build_folder_prefix, _build_address_prefix):
        counts = Counter(prefixes[key] + name for key, name in names.items())
        duplicates = [key for key, name in names.items() if counts[prefixes[key] + name] > 1]
        prefixes |= {key: build_prefix(*key) for key in duplicates}
    return [(prefixes[key], members) for key, members in by_run.items()]


def _get_run_key(location: Location, capture_folders: Collection[str]) -> tuple[str, str]:
    """Return folder and name of a file's run.

    Captures in a separate folder may belong to any replays next to it, so all form one group.
    """
    if location.parent in capture_folders:
        return location.parent.rpartition("/")[0], ""
    if f"{location.parent}/{CAPTURES_FOLDER}" in capture_folders:
        return location.parent, ""
    return location.parent, get_common_name(Path(location.name))


def _build_folder_prefix(folder: str, _: str) -> str:
    return f"{PurePosixPath(folder).name}-"


def _build_address_prefix(folder: str, name: str) -> str:
    return f"{hash_text(f'{folder}/{name}')}-"


def _import_run(task: _Task) -> list[ImportedRun | SkippedFiles]:
    skipped: list[ImportedRun | SkippedFiles] = []
    with ExitStack() as stack:
        scratch = stack.enter_context(create_scratch_folder())
        files = []
        for location in task.locations:
            file = stack.enter_context(provide_local_copy(location, scratch))
            try:
                require_format(file, task.limits)
            except InputError as error:
                skipped.append(SkippedFiles((location.address,), error.found))
            else:
                files.append(file)
        if not files:
            return skipped
        command = ("graphviz-dash", "import", *(file.name for file in files))
        imported = import_files(
            files,
            task.folder,
            mode=task.mode,
            command=(*command, "--mode", task.mode.value),
            limits=task.limits,
            prefix=task.prefix,
            skip_existing=True,
        )
        return [*imported, *skipped]


def _build_failure(task: _Task, reason: str) -> list[ImportedRun | SkippedFiles]:
    return [SkippedFiles(tuple(location.address for location in task.locations), reason)]
