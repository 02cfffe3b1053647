"""Which experiments there are: under the folders given when the server started, and uploaded."""

from __future__ import annotations

import os
import sys
from functools import cache, cached_property
from pathlib import Path
from typing import Final

from msgspec import Struct

from graphviz_dash.bundle.launch import find_launches
from graphviz_dash.bundle.references import reference_launches
from graphviz_dash.errors import InputError
from graphviz_dash.ingest.load import look_for_experiments, run_folders
from graphviz_dash.server_settings import STARTED_IN_VARIABLE
from graphviz_dash.ui.state.store import STORE
from graphviz_dash.ui.state.uploads import UPLOADS

PATHS_VARIABLE: Final = "GRAPHVIZ_DASH_PATHS"
"""Folders to look in, separated as PATH is; used when none are given after ``--``."""

_VERSUS: Final = " vs "

_SAMPLES: Final = "sample_traces"


class Entry(Struct, frozen=True, dict=True):
    """An experiment by the name that addresses use, with its folder."""

    name: str
    path: Path
    is_upload: bool = False
    """Whether the visitor uploaded it."""
    pair: tuple[Path, Path] | None = None
    """The two runs that it is made of, of any experiments; None for a folder of runs."""

    @property
    def command_path(self) -> str | None:
        """Its folder as a command names it that is typed where the server was started; of an upload
        its name, for its visitor knows where it is. None for two runs, which no command takes."""
        if self.pair is not None:
            return None
        return self.path.name if self.is_upload else as_typed(self.path)

    @cached_property
    def key(self) -> str:
        """The key in the store of what is in the folder when it is first asked for."""
        return STORE.register(self.path) if self.pair is None else STORE.register_pair(self.pair)


class Catalogue(Struct, frozen=True):
    """All experiments that a visitor sees by name, the folders that were looked in besides that of
    his uploads, and what was wrong with them."""

    entries: dict[str, Entry]
    roots: tuple[Path, ...]
    problems: tuple[str, ...]

    def entry(self, name: str) -> Entry | None:
        """The experiment called ``name``, or the pair of runs that :func:`pair_name` calls so; None
        where there is neither."""
        if name in self.entries:
            return self.entries[name]
        parts = name.split(_VERSUS)
        for split in range(1, len(parts)):
            first = self._run(_VERSUS.join(parts[:split]))
            second = self._run(_VERSUS.join(parts[split:]))
            if first is not None and second is not None:
                return Entry(name, first.parent, pair=(first, second))
        return None

    def runs(self) -> dict[str, Path]:
        """All runs as ``experiment/run``; nothing of them is read."""
        return {
            f"{entry.name}/{folder.name}": folder
            for entry in self.entries.values()
            for folder in run_folders(entry.path)
        }

    def _run(self, name: str) -> Path | None:
        """The folder of the run ``experiment/run``; only names that were listed lead anywhere."""
        experiment, _, run = name.rpartition("/")
        entry = self.entries.get(experiment)
        if entry is None:
            return None
        return next((folder for folder in run_folders(entry.path) if folder.name == run), None)


def as_typed(folder: Path) -> str:
    """A folder as who started the server would type it."""
    here = Path(os.environ.get(STARTED_IN_VARIABLE) or Path.cwd())
    return str(folder.relative_to(here)) if folder.is_relative_to(here) else str(folder)


def pair_name(first: str, second: str) -> str:
    """The name of a pair of runs, each ``experiment/run``, the baseline first."""
    return f"{first}{_VERSUS}{second}"


@cache
def roots() -> tuple[Path, ...]:
    """The folders to look in: given on the command line, else by PATHS_VARIABLE, else the samples
    in the working folder or, without these, the working folder itself."""
    given = [Path(argument) for argument in sys.argv[1:] if not argument.startswith("-")]
    if not given and (listed := os.environ.get(PATHS_VARIABLE)):
        given = [Path(part) for part in listed.split(os.pathsep) if part]
    if not given:
        given = [Path(_SAMPLES) if Path(_SAMPLES).is_dir() else Path()]
    return tuple(path.resolve() for path in given)


def catalogue(visitor: str) -> Catalogue:
    """What there is now for ``visitor``; looks anew, so that an experiment collected meanwhile
    appears."""
    entries: dict[str, Entry] = {}
    problems = []
    uploads = UPLOADS.folder(visitor)
    # What the visitor brought stands first.
    for root in (*([] if uploads is None else [uploads]), *roots()):
        try:
            # An upload holds what came with it, no links.
            found = look_for_experiments(root, links=root != uploads)
        except InputError as error:
            problems.append(str(error))
            continue
        problems += found.problems
        for path in found.experiments:
            name = _name(path, root, entries)
            entries[name] = Entry(name, path, is_upload=root == uploads)
    return Catalogue(entries, roots(), tuple(problems))


def launches() -> dict[str, Path]:
    """The recordings of launch costs under the same folders by name, and those that ship."""
    recordings: dict[str, Path] = {}
    for root in roots():
        for path in find_launches(root):
            name = path.relative_to(root).as_posix() if path != root else path.name
            recordings.setdefault(name, path)
    seen = {path.resolve() for path in recordings.values()}
    shipped = reference_launches()
    return recordings | {name: path for name, path in shipped.items() if path.resolve() not in seen}


def _name(path: Path, root: Path, entries: dict[str, Entry]) -> str:
    """The path below the root; made unique by a number where two roots hold the same."""
    name = path.relative_to(root).as_posix() if path != root else path.name
    number = 2
    unique = name
    while unique in entries:
        unique = f"{name} ({number})"
        number += 1
    return unique
