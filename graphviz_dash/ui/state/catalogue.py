"""List experiments under the server's folders and the visitor's uploads."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from graphviz_dash.bundle.launch import find_launches
from graphviz_dash.bundle.references import find_reference_launches
from graphviz_dash.errors import InputError
from graphviz_dash.ingest.identity import Identity
from graphviz_dash.ingest.load import list_run_folders, search_experiments
from graphviz_dash.server_settings import STARTED_IN_VARIABLE
from graphviz_dash.ui.state.store import STORE
from graphviz_dash.ui.state.uploads import UPLOADS

PATHS_VARIABLE: Final = "GRAPHVIZ_DASH_PATHS"
"""Folders to search, separated like PATH; used if none follow ``--``."""

_VERSUS: Final = " vs "

_SAMPLES: Final = "sample_traces"

_SUMMARY: Final = "search"
"""Kind of summary of the search of a large folder."""
_MAX_SEARCHED: Final = 500
"""Number of folders above which a search costs more than drawing a page."""
_REUSE_S: Final = 10.0
"""Seconds that a search of more folders is reused for a page that is loaded."""
_REUSE_ON_PAGE_S: Final = 600.0
"""Seconds that it is reused for interactions on that page, each of which starts another search."""


class Entry(Struct, frozen=True, dict=True):
    """An experiment folder with its name in addresses."""

    name: str
    path: Path
    is_upload: bool = False
    pair: tuple[Path, Path] | None = None
    """Two runs to compare; None for a folder of runs."""

    @property
    def command_path(self) -> str | None:
        """Folder for use in a command typed in the server's start folder.

        The name for an upload; None for two runs, which no command accepts.
        """
        if self.pair is not None:
            return None
        return self.path.name if self.is_upload else format_folder(self.path)

    @cached_property
    def key(self) -> str:
        """Key in the store, for the folder's content at first use."""
        return STORE.register(self.path) if self.pair is None else STORE.register_pair(self.pair)


class Catalogue(Struct, frozen=True):
    """Experiments visible to a visitor, the searched folders and their problems."""

    entries: dict[str, Entry]
    roots: tuple[Path, ...]
    problems: tuple[str, ...]
    is_from_cache: bool = False
    """True if from an earlier server's search."""

    def find_entry(self, name: str) -> Entry | None:
        """Return the experiment or the pair with this name, or None."""
        if name in self.entries:
            return self.entries[name]
        parts = name.split(_VERSUS)
        for split in range(1, len(parts)):
            first = self._find_run(_VERSUS.join(parts[:split]))
            second = self._find_run(_VERSUS.join(parts[split:]))
            if first is not None and second is not None:
                return Entry(name, first.parent, pair=(first, second))
        return None

    def list_runs(self) -> dict[str, Path]:
        """Return all run folders by ``experiment/run`` without reading them."""
        return {
            f"{entry.name}/{folder.name}": folder
            for entry in self.entries.values()
            for folder in list_run_folders(entry.path)
        }

    def _find_run(self, name: str) -> Path | None:
        """Return a run's folder; only listed names are valid."""
        experiment, _, run = name.rpartition("/")
        entry = self.entries.get(experiment)
        if entry is None:
            return None
        return next((folder for folder in list_run_folders(entry.path) if folder.name == run), None)


def format_folder(folder: Path) -> str:
    """Format a folder relative to the server's start folder."""
    start = Path(os.environ.get(STARTED_IN_VARIABLE) or Path.cwd())
    return str(folder.relative_to(start)) if folder.is_relative_to(start) else str(folder)


def format_pair_name(first: str, second: str) -> str:
    """Return the name of a pair of runs, each ``experiment/run``, baseline first."""
    return f"{first}{_VERSUS}{second}"


_SEARCHES: Final[dict[Path, _Search]] = {}
"""Recent searches of large folders."""
_SEARCH_LOCK: Final = threading.Lock()
"""Held during a search, so that pages wait for it and do not start another one."""
_CACHED_SEARCHES: Final[dict[Path, NamedExperiments | None]] = {}
"""Results in the cache, as last loaded or stored; None if it has none."""


@cache
def get_roots() -> tuple[Path, ...]:
    """Return the folders to search.

    The command line precedes PATHS_VARIABLE, the samples in the working folder, and the working
    folder.
    """
    return find_roots(sys.argv[1:])


def find_roots(arguments: Sequence[str]) -> tuple[Path, ...]:
    """Return the folders to search for a server with these ``arguments``."""
    folders = [Path(argument) for argument in arguments if not argument.startswith("-")]
    if not folders and (variable := os.environ.get(PATHS_VARIABLE)):
        folders = [Path(part) for part in variable.split(os.pathsep) if part]
    if not folders:
        folders = [Path(_SAMPLES) if Path(_SAMPLES).is_dir() else Path()]
    return tuple(path.resolve() for path in folders)


def list_experiments(
    visitor: str, *, reuses_search: bool = False, uses_cache: bool = False
) -> Catalogue:
    """List the experiments of ``visitor``, searching the folders again.

    With ``reuses_search``, an older search of a large folder is reused, for interactions on a page.
    With ``uses_cache``, a large folder not searched yet is listed as an earlier server found it.
    """
    reuse_s = _REUSE_ON_PAGE_S if reuses_search else _REUSE_S
    entries: dict[str, Entry] = {}
    problems = []
    is_from_cache = False
    uploads = UPLOADS.get_folder(visitor)
    # Uploads first.
    for root in (*([] if uploads is None else [uploads]), *get_roots()):
        try:
            if root == uploads:
                result = search_folder(root, links=False)  # uploads contain no links
            elif uses_cache and root not in _SEARCHES and (search := _load_search(root)):
                result, is_from_cache = search, True
            else:
                result = _search(root, reuse_s)
        except InputError as error:
            problems.append(str(error))
            continue
        problems += result.problems
        _add_entries(entries, result, is_upload=root == uploads)
    return Catalogue(entries, get_roots(), tuple(problems), is_from_cache)


def list_known_experiments(visitor: str) -> Catalogue | None:
    """List the experiments as last found, without a search of folders.

    None if a folder is unknown or small, or if the visitor has uploads.
    """
    if UPLOADS.get_folder(visitor) is not None:
        return None
    entries: dict[str, Entry] = {}
    is_from_cache = False
    for root in get_roots():
        if (recent := _SEARCHES.get(root)) is not None:
            result = recent.experiments
        elif (stored := _load_search(root)) is not None:
            result, is_from_cache = stored, True
        else:
            return None
        _add_entries(entries, result)
    return Catalogue(entries, get_roots(), (), is_from_cache)


def _add_entries(
    entries: dict[str, Entry], result: NamedExperiments, *, is_upload: bool = False
) -> None:
    for name, path in result.experiments:
        unique = _build_unique_name(name, entries)
        entries[unique] = Entry(unique, path, is_upload=is_upload)


class NamedExperiments(Struct, frozen=True):
    """Experiments found under a folder, with their names."""

    experiments: tuple[tuple[str, Path], ...]
    problems: tuple[str, ...]
    folder_count: int
    """Number of folders searched."""

    @property
    def is_large(self) -> bool:
        """True if the search costs more than drawing a page."""
        return self.folder_count > _MAX_SEARCHED


def preload_searches(roots: Sequence[Path]) -> bool:
    """Load the searches of ``roots`` by an earlier server; True if there is any."""
    searches = [_load_search(root) for root in roots]
    return any(search is not None for search in searches)


def _load_search(root: Path) -> NamedExperiments | None:
    """Return the last search of a large folder by any server; None if unknown."""
    if root not in _CACHED_SEARCHES:
        _CACHED_SEARCHES[root] = None
        # SQLite is not needed by a command that lists no experiments.
        from graphviz_dash.ingest.summaries import get_default_summaries

        if (summaries := get_default_summaries()) is not None:
            summary = summaries.load_some(_SUMMARY, [str(root)]).get(str(root))
            with suppress(msgspec.MsgspecError):
                if summary is not None:
                    _CACHED_SEARCHES[root] = msgspec.json.decode(
                        summary[1], type=NamedExperiments, dec_hook=lambda _, text: Path(text)
                    )
    return _CACHED_SEARCHES[root]


def _store_search(root: Path, result: NamedExperiments) -> None:
    if result != _load_search(root):
        from graphviz_dash.ingest.summaries import Summary, get_default_summaries

        _CACHED_SEARCHES[root] = result
        if (summaries := get_default_summaries()) is not None:
            content = msgspec.json.encode(result, enc_hook=str)
            summaries.store(_SUMMARY, [Summary(str(root), Identity(b"", 0), content)])


class _Search(Struct, frozen=True):
    """A recent search of a large folder."""

    experiments: NamedExperiments
    end_s: float
    """Time of its end, in seconds of the monotonic clock."""


def refresh_searches() -> threading.Thread:
    """Search large folders again whose last search is not recent, in a background thread."""
    thread = threading.Thread(target=_refresh, name="graphviz-dash search", daemon=True)
    thread.start()
    return thread


def _refresh() -> None:
    for root in get_roots():
        if root in _SEARCHES or _CACHED_SEARCHES.get(root) is not None:
            with suppress(InputError):  # the next page reports this
                _search(root, _REUSE_S)


def _search(root: Path, reuse_s: float) -> NamedExperiments:
    """Search a folder, or return a recent result if it contains many experiments."""
    if (recent := _get_recent_search(root, reuse_s)) is not None:
        return recent
    with _SEARCH_LOCK:
        if (recent := _get_recent_search(root, reuse_s)) is not None:
            return recent
        result = search_folder(root)
        if result.is_large:
            record_search(root, result)
        else:
            _SEARCHES.pop(root, None)
        return result


def record_search(root: Path, result: NamedExperiments) -> None:
    """Record the result of a search that has just ended, here or in another process."""
    _SEARCHES[root] = _Search(result, time.monotonic())
    _store_search(root, result)


def _get_recent_search(root: Path, reuse_s: float) -> NamedExperiments | None:
    recent = _SEARCHES.get(root)
    is_recent = recent is not None and time.monotonic() - recent.end_s < reuse_s
    return recent.experiments if recent is not None and is_recent else None


def search_folder(
    root: Path, *, links: bool = True, poll: Callable[[], object] | None = None
) -> NamedExperiments:
    """Search a folder.

    Arguments and errors are those of :func:`~graphviz_dash.ingest.load.search_experiments`.
    """
    result = search_experiments(root, links=links, poll=poll)
    # Strings, because thousands of relative paths cost as much as the search.
    prefix = os.path.join(root, "")
    names = (
        path.name if path == root else str(path).removeprefix(prefix).replace(os.sep, "/")
        for path in result.experiments
    )
    experiments = tuple(zip(names, result.experiments, strict=True))
    return NamedExperiments(experiments, result.problems, result.folder_count)


def list_launches() -> dict[str, Path]:
    """Return the recordings of launch costs by name: under the folders, and built in."""
    recordings: dict[str, Path] = {}
    for root in get_roots():
        for path in find_launches(root):
            name = path.relative_to(root).as_posix() if path != root else path.name
            recordings.setdefault(name, path)
    known = {path.resolve() for path in recordings.values()}
    references = find_reference_launches()
    return recordings | {
        name: path for name, path in references.items() if path.resolve() not in known
    }


def _build_unique_name(name: str, entries: dict[str, Entry]) -> str:
    """Return the path below the root, numbered if two roots contain the same."""
    number = 2
    unique = name
    while unique in entries:
        unique = f"{name} ({number})"
        number += 1
    return unique
