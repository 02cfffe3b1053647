"""Runs and experiments from disk: bundles, checked, with their traces read into tables."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.bundle.parts import JSON_PARTS, LOOP, RECORDING
from graphviz_dash.bundle.read import (
    BundleContents,
    checked_file,
    is_bundle,
    read_bundle,
    read_parts,
)
from graphviz_dash.bundle.schema import ABOUT
from graphviz_dash.errors import InputError
from graphviz_dash.ingest.limits import DEFAULT_LIMITS, Limits
from graphviz_dash.model.run import ExecutionMode, Experiment, FileRole, Run, RunParts
from graphviz_dash.model.trace import Trace
from graphviz_dash.progress import subtask

_MOST_ABOUT = 300
"""Characters that are read of the line which says what an experiment is."""

_COLLECT = "Record one with: graphviz-dash collect --workload NAME --modes eager,graph -o FOLDER."
_ORDER = {mode: rank for rank, mode in enumerate(ExecutionMode)}


def load_run(
    path: Path, limits: Limits = DEFAULT_LIMITS, *, traces: bool = True, checked: bool = True
) -> Run:
    """The run bundle at ``path``, its ``traces`` included; see ``ingest/cache.py`` for these. Those
    that are not read are compared with their sha256 if they are to be ``checked``.

    Raises:
        InputError: no bundle, or one that is not as its manifest and
            docs/reference/bundle-format.md say, or a trace that cannot be read; the message names
            the file.
    """
    contents: BundleContents = read_bundle(path, traces=traces or checked)
    captures: list[Trace] = []
    replayed = None
    if traces:
        count = len(contents.captures) + 1
        for number, file in enumerate(contents.captures):
            with subtask(number, count):
                captures.append(_trace(contents, file, limits))
        if contents.replay_trace is not None:
            with subtask(count - 1, count):
                replayed = _trace(contents, contents.replay_trace, limits)
    parts = {name: getattr(contents, name) for name in RunParts.__struct_fields__}
    if not captures and replayed is not None and _holds_captures(contents):
        captures = [replayed]
    return Run(
        **parts,
        capture_trace=captures[0] if captures else None,
        further_captures=tuple(captures[1:]),
        replay_trace=replayed,
    )


def with_replay_trace(run: Run, limits: Limits = DEFAULT_LIMITS) -> Run:
    """``run``, of which less was read, with the trace of its steps; as it is where its bundle has
    none.

    Raises:
        InputError: as :func:`load_run`, of the trace.
    """
    entries = [each for each in run.manifest.files if each.role is FileRole.REPLAY_TRACE]
    if not entries or run.replay_trace is not None:
        return run
    file = checked_file(run.path, entries[0], whole=False)
    return replace(run, replay_trace=_open_trace(file, entries[0].sha256, limits))


def _trace(contents: BundleContents, file: Path, limits: Limits) -> Trace:
    within = file.relative_to(contents.path).as_posix()
    sha256 = next(entry.sha256 for entry in contents.manifest.files if entry.path == within)
    return _open_trace(file, sha256, limits)


def _open_trace(file: Path, sha256: str, limits: Limits) -> Trace:
    # The engine of tables comes with the first trace: the rest of a bundle does not wait for it.
    from graphviz_dash.ingest.cache import default_cache, open_trace

    # What is temporary, uploads among it, should leave nothing behind.
    temporary = file.resolve().is_relative_to(Path(tempfile.gettempdir()).resolve())
    cache = None if temporary else default_cache()
    return open_trace(file, limits, cache=cache, sha256=sha256)


def _holds_captures(contents: BundleContents) -> bool:
    """Whether the trace of a program's window is the trace of its captures too."""
    if contents.manifest.sources:
        return True
    recording = contents.recording
    return recording is not None and any(graph.profiled for graph in recording.graphs)


def load_experiment(
    path: Path, limits: Limits = DEFAULT_LIMITS, *, traces: bool = True
) -> Experiment:
    """All runs directly under ``path``, in the order of ExecutionMode, then rank, then name;
    without ``traces`` the rest of their bundles, which is read in a fraction of the time, for the
    content of their traces is not even looked at.

    Raises:
        InputError: no such folder, no run in it, or a run that cannot be loaded.
    """
    folder = _resolved(path)
    bundles = _bundles_in(folder)
    if not bundles:
        raise _no_runs(folder)
    runs = []
    for index, bundle in enumerate(bundles):
        with subtask(index, len(bundles)):
            runs.append(load_run(bundle, limits, traces=traces, checked=traces))
    return _experiment(folder, runs)


def load_without_graphs(path: Path) -> Experiment:
    """All runs directly under ``path`` with everything but their traces and their graphs, which may
    be of a million nodes: of these it is checked that they are there, of their size, and no more.

    Raises:
        InputError: as :func:`load_experiment`, of what is read.
    """
    folder = _resolved(path)
    bundles = _bundles_in(folder)
    if not bundles:
        raise _no_runs(folder)
    runs = []
    for bundle in bundles:
        parts = read_parts(bundle, JSON_PARTS)
        for entry in parts.manifest.files:
            if entry.role is FileRole.GRAPH:
                checked_file(bundle, entry, whole=False)
        runs.append(Run(**{name: getattr(parts, name) for name in RunParts.__struct_fields__}))
    return _experiment(folder, runs)


def _experiment(folder: Path, runs: list[Run]) -> Experiment:
    runs.sort(key=lambda run: (_ORDER[run.mode], run.manifest.rank or 0, run.name))
    return Experiment(path=folder, runs=tuple(runs), about=_about(folder))


def load_outlines(path: Path) -> tuple[Run, ...]:
    """The runs directly under ``path`` with what was recorded of a program and its loop and nothing
    else of their bundles, in the order of their names: what their families come to, and which parts
    they have, long before thousands of graphs are read.

    Raises:
        InputError: no such folder, or a bundle that is not as docs/reference/bundle-format.md says.
    """
    outlines = (read_parts(bundle, (RECORDING, LOOP)) for bundle in _bundles_in(_resolved(path)))
    return tuple(
        Run(path=parts.path, manifest=parts.manifest, recording=parts.recording, loop=parts.loop)
        for parts in outlines
    )


def load_pair(
    paths: tuple[Path, Path], limits: Limits = DEFAULT_LIMITS, *, traces: bool = True
) -> Experiment:
    """Two run bundles of any experiments as one, the first the baseline: each is called after
    itself and its experiment.

    Raises:
        InputError: a run that cannot be loaded.
    """
    labels = [f"{path.name}@{path.parent.name}" for path in paths]
    if labels[0] == labels[1]:
        labels[1] += " (2)"
    runs = []
    for index, path in enumerate(paths):
        with subtask(index, len(paths)):
            run = load_run(path, limits, traces=traces, checked=traces)
        runs.append(replace(run, label=labels[index]))
    return Experiment(Path(" vs ".join(labels)), tuple(runs), baseline=labels[0])


def _about(folder: Path) -> str | None:
    """The first line of its ``about.txt``, as far as it is shown; None where there is none."""
    try:
        with (folder / ABOUT).open(encoding="utf-8", errors="replace") as file:
            line = file.readline(_MOST_ABOUT).strip()
    except OSError:
        return None
    return line or None


class FoundExperiments(Struct, frozen=True):
    """What was found under a folder."""

    experiments: tuple[Path, ...]
    """Folders with run bundles among their direct children, by path."""
    refused: tuple[Path, ...]
    """Links to folders that were not followed, as another account made them."""

    @property
    def problems(self) -> tuple[str, ...]:
        """Of each link that was not followed why, in a line."""
        why = "a link that another account made; of such only those to its own folders are followed"
        return tuple(f"{link}: {why}" for link in self.refused)


def find_experiments(root: Path, depth: int = 3) -> list[Path]:
    """The experiments of :func:`look_for_experiments`; raises as it does."""
    return list(look_for_experiments(root, depth).experiments)


def look_for_experiments(root: Path, depth: int = 3, *, links: bool = True) -> FoundExperiments:
    """The experiments at or under ``root``. Goes ``depth`` folders down, not into bundles or hidden
    folders. With ``links`` it follows those that lead out of ``root``, each folder once and one
    folder further down at most: who links an experiment, or a folder of some, means to see them.
    Another account's link is followed to folders of its own alone, else it could show what only
    this account may read.

    Nothing of a bundle is read; loading tells whether it is whole. Folders that may not be entered
    are passed over.

    Raises:
        InputError: ``root`` is no folder.
    """
    folder = _resolved(root)
    search = _Search(folder, links, {folder}, [])
    return FoundExperiments(tuple(sorted(search.under(folder, depth))), tuple(search.refused))


class _Search(Struct, frozen=True):
    """A search for experiments."""

    root: Path
    """Where it began, without links."""
    links: bool
    """Whether links are followed."""
    seen: set[Path]
    """The folders that links led to, without links."""
    refused: list[Path]
    """Links that were not followed."""

    def under(self, folder: Path, depth: int) -> Iterator[Path]:
        """The experiments at or under ``folder``."""
        # Each is asked once: every page lists all, and a folder may lie on a disk far away.
        children = [(child, is_bundle(child)) for child in _folders_in(folder)]
        if any(bundle for _, bundle in children):
            yield folder
        if depth <= 0:
            return
        for child, bundle in children:
            if bundle:
                continue
            if not child.is_symlink():
                yield from self.under(child, depth - 1)
            elif self.links and self._leads_out(child):
                yield from self.under(child, min(depth - 1, 1))

    def _leads_out(self, link: Path) -> bool:
        try:
            target = link.resolve()
            maker, owner = link.lstat().st_uid, target.stat().st_uid
        except (OSError, RuntimeError):
            return False
        # What lies under the root is found there, and a loop leads back into it.
        if target in self.seen or target.is_relative_to(self.root):
            return False
        self.seen.add(target)
        if not may_follow(maker, owner, _account()):
            self.refused.append(link)
            return False
        return True


def may_follow(maker: int, owner: int, account: int) -> bool:
    """Whether ``account`` follows a link that ``maker`` made to a folder of ``owner``: user ids."""
    return maker in (0, account, owner)


def _account() -> int:
    # Windows has no user ids; there all links and folders say 0.
    return os.geteuid() if hasattr(os, "geteuid") else 0


def run_folders(experiment: Path) -> list[Path]:
    """The bundles directly in the folder of an experiment, by name; nothing of them is read."""
    return _bundles_in(experiment)


def _bundles_in(folder: Path) -> list[Path]:
    return [child for child in _folders_in(folder) if is_bundle(child)]


def _folders_in(folder: Path) -> list[Path]:
    """Visible folders, by name. A staging folder of a collector begins with a dot."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(e.name for e in entries if not e.name.startswith(".") and _is_folder(e))
    except OSError:
        return []
    return [folder / name for name in names]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a loop of links
        return False


def _resolved(path: Path) -> Path:
    """``path`` made absolute, so that "." has a name; InputError when it is no folder."""
    try:
        folder = path.resolve()
        if not folder.is_dir():
            actual = "a file" if folder.exists() else "no such folder"
            raise InputError(path, actual, "the folder of an experiment")
        os.scandir(folder).close()
    except PermissionError as error:
        raise InputError(path, "permission denied", "a folder that can be read") from error
    except (OSError, ValueError, RuntimeError) as error:
        # Too long a name, a NUL character, a loop of links (a RuntimeError before Python 3.13).
        raise InputError(path, str(error), "the folder of an experiment") from error
    return folder


def _no_runs(folder: Path) -> InputError:
    if is_bundle(folder):
        return InputError(
            folder,
            "a single run",
            "an experiment, the folder above it",
            f"Give {folder.parent} instead.",
        )
    inside = find_experiments(folder)
    if inside:
        named = ", ".join(str(path.relative_to(folder)) for path in inside[:5])
        return InputError(
            folder, "no run directly in it", "an experiment", f"Experiments in it: {named}."
        )
    return InputError(folder, "no run in it", "an experiment, a folder of runs", _COLLECT)
