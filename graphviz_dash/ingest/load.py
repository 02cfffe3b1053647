"""Loader of runs and experiments: validated bundles with traces as tables."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.bundle.files import (
    NOT_UTF8,
    build_folder_error,
    check_utf8,
    is_foreign_link,
    is_utf8,
    read_regular_file,
)
from graphviz_dash.bundle.parts import JSON_PARTS, LEDGER, LOOP, PARALLEL, RECORDING
from graphviz_dash.bundle.read import (
    BundleContents,
    check_file,
    is_bundle,
    read_bundle,
    read_parts,
)
from graphviz_dash.bundle.schema import DESCRIPTION_FILE
from graphviz_dash.errors import InputError, escape_control_characters
from graphviz_dash.ingest.limits import DEFAULT_LIMITS, Limits
from graphviz_dash.model.recording import Recording
from graphviz_dash.model.run import ExecutionMode, Experiment, FileRole, Run, RunParts
from graphviz_dash.model.trace import Trace
from graphviz_dash.progress import report_subtask

_MAX_DESCRIPTION_LENGTH = 300
"""Maximum length of an experiment's description, in characters."""

_COLLECT_ADVICE = (
    "Record one with: graphviz-dash collect --workload NAME --modes eager,graph -o FOLDER."
)
_MODE_ORDER = {mode: rank for rank, mode in enumerate(ExecutionMode)}


def load_run(
    path: Path, limits: Limits = DEFAULT_LIMITS, *, traces: bool = True, check_hashes: bool = True
) -> Run:
    """Load the run bundle at ``path``.

    Args:
        path: Folder of the bundle.
        limits: Limits for traces.
        traces: Load the traces, possibly from the cache (``ingest/cache.py``).
        check_hashes: Verify the sha256 of traces that are not loaded.

    Raises:
        InputError: Not a bundle, content that contradicts its manifest or
            docs/reference/bundle-format.md, or an unreadable trace; names the file.
    """
    contents: BundleContents = read_bundle(path, traces=traces or check_hashes)
    captures: list[Trace] = []
    replay_trace = None
    if traces:
        count = len(contents.capture_traces) + 1
        for number, file in enumerate(contents.capture_traces):
            with report_subtask(number, count):
                captures.append(_load_trace(contents, file, limits))
        if contents.replay_trace is not None:
            with report_subtask(count - 1, count):
                replay_trace = _load_trace(contents, contents.replay_trace, limits)
    parts = {name: getattr(contents, name) for name in RunParts.__struct_fields__}
    if not captures and replay_trace is not None and _has_captures(contents):
        captures = [replay_trace]
    return Run(
        **parts,
        capture_trace=captures[0] if captures else None,
        additional_capture_traces=tuple(captures[1:]),
        replay_trace=replay_trace,
    )


def add_replay_trace(run: Run) -> Run:
    """Add the trace to a partially loaded ``run``, if its bundle has one.

    Raises:
        InputError: As in :func:`load_run`, for the trace.
    """
    entries = [entry for entry in run.manifest.files if entry.role is FileRole.REPLAY_TRACE]
    if not entries or run.replay_trace is not None:
        return run
    file = check_file(run.path, entries[0])
    trace = _open_trace(file, entries[0].sha256, DEFAULT_LIMITS, run.recording)
    return replace(run, replay_trace=trace)


def _load_trace(contents: BundleContents, file: Path, limits: Limits) -> Trace:
    relative_path = file.relative_to(contents.path).as_posix()
    sha256 = next(entry.sha256 for entry in contents.manifest.files if entry.path == relative_path)
    return _open_trace(file, sha256, limits, contents.recording)


def _open_trace(file: Path, sha256: str, limits: Limits, recording: Recording | None) -> Trace:
    # Imports Polars only with the first trace, so that other parts of a bundle load without it.
    from graphviz_dash.ingest.cache import get_default_cache, open_trace
    from graphviz_dash.ingest.unfinished_step import name_unfinished_step

    # Temporary files, including uploads, are not cached.
    temporary = file.resolve().is_relative_to(Path(tempfile.gettempdir()).resolve())
    cache = None if temporary else get_default_cache()
    trace = open_trace(file, limits, cache=cache, sha256=sha256)
    return name_unfinished_step(trace, recording)


def _has_captures(contents: BundleContents) -> bool:
    if contents.manifest.sources:
        return True
    recording = contents.recording
    return recording is not None and any(graph.profiled for graph in recording.graphs)


def load_experiment(
    path: Path, limits: Limits = DEFAULT_LIMITS, *, traces: bool = True
) -> Experiment:
    """Load all runs directly in ``path``, sorted by ExecutionMode, rank and name.

    Without ``traces``, loading is several times faster and their content is not checked.

    Raises:
        InputError: Folder not found, no run, or a run that cannot be loaded.
    """
    folder = _resolve_folder(path)
    bundles = list_bundles(folder)
    if not bundles:
        raise _build_no_runs_error(folder)
    runs = []
    for index, bundle in enumerate(bundles):
        with report_subtask(index, len(bundles)):
            runs.append(load_run(bundle, limits, traces=traces, check_hashes=traces))
    return _build_experiment(folder, runs)


def load_without_graphs(path: Path) -> Experiment:
    """Load all runs directly in ``path`` without traces and graphs (up to a million nodes). Only
    existence and size of the graph files are checked.

    Raises:
        InputError: As in :func:`load_experiment`, for the loaded parts.
    """
    folder = _resolve_folder(path)
    bundles = list_bundles(folder)
    if not bundles:
        raise _build_no_runs_error(folder)
    runs = []
    for bundle in bundles:
        parts = read_parts(bundle, JSON_PARTS)
        for entry in parts.manifest.files:
            if entry.role is FileRole.GRAPH:
                check_file(bundle, entry, check_hash=False)
        runs.append(Run(**{name: getattr(parts, name) for name in RunParts.__struct_fields__}))
    return _build_experiment(folder, runs)


def _build_experiment(folder: Path, runs: list[Run]) -> Experiment:
    runs.sort(key=lambda run: (_MODE_ORDER[run.mode], run.manifest.rank or 0, run.name))
    return Experiment(path=folder, runs=tuple(runs), description=_read_description(folder))


def load_outlines(path: Path) -> tuple[Run, ...]:
    """Load only recording, loop and memory ledger of the runs directly in ``path``, sorted by name.

    Much faster than reading thousands of graphs.

    Raises:
        InputError: Folder not found, or an invalid bundle.
    """
    outlines = (
        read_parts(bundle, (RECORDING, LOOP, LEDGER))
        for bundle in list_bundles(_resolve_folder(path))
    )
    return tuple(
        Run(
            path=parts.path,
            manifest=parts.manifest,
            recording=parts.recording,
            loop=parts.loop,
            ledger=parts.ledger,
        )
        for parts in outlines
    )


def load_sibling_plans(run: Run) -> tuple[Run, ...]:
    """Load the plans of the other readable runs in the folder of ``run``, sorted by name."""
    plans = []
    for bundle in list_bundles(run.path.parent):
        if bundle.name == run.path.name:
            continue
        with suppress(InputError):
            contents = read_parts(bundle, (PARALLEL,))
            if contents.parallel is not None:
                plans.append(
                    Run(
                        path=contents.path,
                        manifest=contents.manifest,
                        parallel=contents.parallel,
                    )
                )
    return tuple(plans)


def load_pair(paths: tuple[Path, Path], *, traces: bool = True) -> Experiment:
    """Load two run bundles as one experiment, with the first as baseline. Each is labelled with its
    name and its experiment.

    Raises:
        InputError: A run cannot be loaded.
    """
    labels = [f"{path.name}@{path.parent.name}" for path in paths]
    if labels[0] == labels[1]:
        labels[1] += " (2)"
    runs = []
    for index, path in enumerate(paths):
        with report_subtask(index, len(paths)):
            run = load_run(path, traces=traces, check_hashes=traces)
        runs.append(replace(run, label=labels[index]))
    return Experiment(Path(" vs ".join(labels)), tuple(runs), baseline=labels[0])


def _read_description(folder: Path) -> str | None:
    """Read the first line of ``about.txt``. None if not a regular file, because a link could expose
    other files."""
    try:
        content = read_regular_file(
            folder / DESCRIPTION_FILE, 4 * _MAX_DESCRIPTION_LENGTH, follow_links=False
        )
    except OSError:
        return None
    lines = content.decode("utf-8", "replace").splitlines()
    return (lines[0] if lines else "")[:_MAX_DESCRIPTION_LENGTH].strip() or None


class FoundExperiments(Struct, frozen=True):
    """Experiments found under a folder."""

    experiments: tuple[Path, ...]
    """Folders with run bundles directly inside, sorted by path."""
    skipped_links: tuple[Path, ...]
    """Links not followed because another account created them."""
    folder_count: int
    """Number of folders searched."""
    non_utf8: tuple[Path, ...] = ()
    """Skipped folders with a name that is not UTF-8."""

    @property
    def problems(self) -> tuple[str, ...]:
        """Reason for each skipped folder, one line each."""
        reason = (
            "a link created by another account; only links to that account's folders are followed"
        )
        lines = [f"{link}: {reason}" for link in self.skipped_links]
        lines += [f"{folder}: {NOT_UTF8}; rename it" for folder in self.non_utf8]
        return tuple(map(escape_control_characters, lines))


def find_experiments(
    root: Path, depth: int = 3, poll: Callable[[], object] | None = None
) -> list[Path]:
    """Find the experiments at or below ``root``. Raises as :func:`search_experiments`."""
    return list(search_experiments(root, depth, poll=poll).experiments)


def search_experiments(
    root: Path, depth: int = 3, *, links: bool = True, poll: Callable[[], object] | None = None
) -> FoundExperiments:
    """Find the experiments at or below ``root``, up to ``depth`` levels down.

    Skips bundles, hidden folders and inaccessible folders. Does not read bundles. With ``links``,
    links out of ``root`` are followed, each folder once and at most one level further. Links of
    another account are followed only to its own folders; otherwise they could expose files that
    only this account may read. ``poll`` is called for each folder.

    Raises:
        InputError: ``root`` is not a folder.
    """
    folder = _resolve_folder(root)
    search = _Search(folder, links, poll, {folder}, [], [], [])
    folder_count = search.find_below(str(folder), depth)
    paths = sorted(search.experiments, key=lambda path: path.split(os.sep))
    experiments = tuple(map(Path, paths))
    return FoundExperiments(
        experiments, tuple(search.skipped_links), folder_count, tuple(search.non_utf8)
    )


class _Search(Struct, frozen=True):
    """A search for experiments."""

    root: Path
    links: bool
    poll: Callable[[], object] | None
    seen: set[Path]
    """Resolved target folders of followed links."""
    experiments: list[str]
    skipped_links: list[Path]
    non_utf8: list[Path]

    def find_below(self, folder: str, depth: int) -> int:
        """Add the experiments at or below ``folder``; return the number of folders searched."""
        # Each child is tested once, because every page lists all and a folder may be on a slow
        # disk. Strings, because a Path costs more than the test.
        if self.poll is not None:
            self.poll()
        others = []
        is_experiment = False
        for name, is_link in _list_folders(folder):
            child = f"{folder.rstrip(os.sep)}{os.sep}{name}"
            if not is_utf8(name):
                self.non_utf8.append(Path(child))
            elif not is_bundle(child):
                others.append((child, is_link))
            elif is_link and is_foreign_link(Path(child)):
                self.skipped_links.append(Path(child))
            else:
                is_experiment = True
        if is_experiment:
            self.experiments.append(folder)
        folder_count = 1
        if depth <= 0:
            return folder_count
        for child, is_link in others:
            if not is_link:
                folder_count += self.find_below(child, depth - 1)
            elif self.links and self._follow_link(Path(child)):
                folder_count += self.find_below(child, min(depth - 1, 1))
        return folder_count

    def _follow_link(self, link: Path) -> bool:
        try:
            target = link.resolve()
        except (OSError, RuntimeError):
            return False
        # Folders under the root are found directly, and a loop leads back into it.
        if target in self.seen or target.is_relative_to(self.root):
            return False
        self.seen.add(target)
        if is_foreign_link(link):
            self.skipped_links.append(link)
            return False
        return True


def list_run_folders(experiment: Path) -> list[Path]:
    """List the bundles directly in ``experiment`` by name, omitting names that are not UTF-8."""
    return [folder for folder in list_bundles(experiment) if is_utf8(folder.name)]


def list_bundles(folder: Path) -> list[Path]:
    """List the bundles directly in ``folder`` by name."""
    return [
        folder / name
        for name, is_link in _list_folders(folder)
        if is_bundle(os.path.join(folder, name))
        and not (is_link and is_foreign_link(folder / name))
    ]


def _list_folders(folder: Path | str) -> list[tuple[str, bool]]:
    """List the visible subfolders of ``folder`` by name; True for links."""
    try:
        with os.scandir(folder) as entries:
            return sorted(
                (entry.name, entry.is_symlink())
                for entry in entries
                if not entry.name.startswith(".") and _is_folder(entry)
            )
    except OSError:
        return []


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a loop of links
        return False


def _resolve_folder(path: Path) -> Path:
    """Resolve ``path``, so that "." has a name. Raises InputError if it is not a folder."""
    try:
        folder = path.resolve()
        check_utf8(folder)
        if not folder.is_dir():
            raise build_folder_error(path, "the folder of an experiment")
        os.scandir(folder).close()
    except PermissionError as error:
        raise InputError(path, "permission denied", "a readable folder") from error
    except (OSError, ValueError, RuntimeError) as error:
        # Name too long, NUL character, or a loop of links (a RuntimeError before Python 3.13).
        raise InputError(path, str(error), "the folder of an experiment") from error
    return folder


def _build_no_runs_error(folder: Path) -> InputError:
    if is_bundle(folder):
        return InputError(
            folder,
            "a single run",
            "an experiment, which is its parent folder",
            f"Use {folder.parent} instead.",
        )
    experiments = find_experiments(folder)
    if experiments:
        paths = ", ".join(str(path.relative_to(folder)) for path in experiments[:5])
        return InputError(
            folder,
            "no run directly in the folder",
            "an experiment",
            f"Experiments below it: {paths}.",
        )
    return InputError(folder, "no run", "an experiment, a folder of runs", _COLLECT_ADVICE)
