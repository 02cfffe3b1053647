"""Imports of many files at once: each run by itself, in parallel, going on after an interrupt."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec import Struct

from graphviz_dash.errors import InputError
from graphviz_dash.importers.bundles import Imported, import_files
from graphviz_dash.importers.group import CAPTURES, common_name, digest, run_name, stem
from graphviz_dash.importers.locations import Location, local_copy
from graphviz_dash.importers.tasks import run_all
from graphviz_dash.ingest.formats.registry import foreign_format
from graphviz_dash.ingest.limits import DEFAULT_LIMITS, Limits
from graphviz_dash.model.run import ExecutionMode


class NotImported(Struct, frozen=True):
    """Files of which no run was made, and why."""

    files: tuple[str, ...]
    reason: str


class _Task(Struct, frozen=True):
    """The import of one run."""

    locations: tuple[Location, ...]
    """Its files."""
    folder: Path
    """The experiment to write into."""
    prefix: str
    """What stands before the run's name; may be empty."""
    mode: ExecutionMode
    """What the run counts as."""
    limits: Limits
    """What may be read of a file."""


def import_many(
    locations: Sequence[Location],
    folder: Path,
    make: Callable[[], Any],
    *,
    mode: ExecutionMode = ExecutionMode.RECORDED,
    limits: Limits = DEFAULT_LIMITS,
) -> Iterator[Imported | NotImported]:
    """Makes run bundles of the files at ``locations`` in ``folder``, in the order in which they are
    done; each run of its own files, so that one that cannot be read spoils no other.

    Workers write into ``folder`` themselves: on other machines it must be the same folder. A run
    that is there already of the same files counts as imported, so an interrupted import goes on
    where it was. Bundles, and files of no known kind, are passed over.
    """
    for location in locations:
        if location.unreadable:
            yield NotImported((location.address,), location.unreadable)
    readable = [location for location in locations if not location.unreadable]
    tasks = [
        _Task(tuple(members), folder.resolve(), prefix, mode, limits)
        for prefix, members in _runs(readable)
    ]
    for result in run_all(_import, tasks, make, _failed):
        yield from result


def _runs(locations: Sequence[Location]) -> list[tuple[str, list[Location]]]:
    """The files of each run, and what must stand before its name to be unlike the others."""
    by_run: dict[tuple[str, str], list[Location]] = {}
    folders = {location.folder for location in locations}
    beside = {f"{folder}/{CAPTURES}" for folder in folders} & folders
    for location in locations:
        if not location.bundle:
            by_run.setdefault(_run_key(location, beside), []).append(location)
    names = {key: run_name(key[1] or stem(Path(of[0].name))) for key, of in by_run.items()}
    prefixes = dict.fromkeys(by_run, "")
    # Told apart by their folders, or else by all of the address: names that differ may be alike
    # as names of folders.
    for unlike in (_folder_prefix, _address_prefix):
        several = Counter(prefixes[key] + name for key, name in names.items())
        alike = [key for key, name in names.items() if several[prefixes[key] + name] > 1]
        prefixes |= {key: unlike(*key) for key in alike}
    return [(prefixes[key], members) for key, members in by_run.items()]


def _run_key(location: Location, beside: Collection[str]) -> tuple[str, str]:
    """Folder and name of the run that a file is of. Captures in a folder of their own are for any
    of the replays beside it, so that all of these are read together: ``beside`` are such folders.
    """
    if location.folder in beside:
        return location.folder.rpartition("/")[0], ""
    if f"{location.folder}/{CAPTURES}" in beside:
        return location.folder, ""
    return location.folder, common_name(Path(location.name))


def _folder_prefix(folder: str, _: str) -> str:
    return f"{PurePosixPath(folder).name}-"


def _address_prefix(folder: str, name: str) -> str:
    return f"{digest(f'{folder}/{name}')}-"


def _import(task: _Task) -> list[Imported | NotImported]:
    """The runs of one task; runs on a worker."""
    passed: list[Imported | NotImported] = []
    with ExitStack() as stack:
        scratch = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="graphviz-dash-import-"))
        )
        files = []
        for location in task.locations:
            file = stack.enter_context(local_copy(location, scratch))
            try:
                foreign_format(file, task.limits)
            except InputError as error:
                passed.append(NotImported((location.address,), error.found))
            else:
                files.append(file)
        if not files:
            return passed
        command = ("graphviz-dash", "import", *(file.name for file in files))
        made = import_files(
            files,
            task.folder,
            mode=task.mode,
            command=(*command, "--mode", task.mode.value),
            limits=task.limits,
            prefix=task.prefix,
            again=True,
        )
        return [*made, *passed]


def _failed(task: _Task, reason: str) -> list[Imported | NotImported]:
    return [NotImported(tuple(location.address for location in task.locations), reason)]
