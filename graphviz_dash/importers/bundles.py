"""Conversion of foreign files to run bundles.

Engines capture one graph per batch size, each with its own trace.
"""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec
from isal import igzip
from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.analysis.replays.inferred_graphs import find_captured_launches, infer_graphs
from graphviz_dash.analysis.replays.replays import match_replays
from graphviz_dash.bundle import parts
from graphviz_dash.bundle.read import is_bundle, read_manifest
from graphviz_dash.bundle.staging import create_scratch_folder
from graphviz_dash.bundle.write import BundleWriter
from graphviz_dash.errors import GraphvizDashError, InputError
from graphviz_dash.importers.group import (
    SourceGroup,
    SourcePart,
    build_run_name,
    group_parts,
    has_duplicates,
    separate_names,
)
from graphviz_dash.importers.manifests import build_imported_manifest, iter_sources, read_trace_head
from graphviz_dash.importers.run_contents import RunContents, build_run_contents
from graphviz_dash.ingest.byte_stream import ByteStream
from graphviz_dash.ingest.formats.registry import ForeignContent, read_foreign
from graphviz_dash.ingest.kineto.launch_arguments import read_launched_kernels
from graphviz_dash.ingest.limits import DEFAULT_LIMITS, Limits
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.run import Absent, ExecutionMode, FileRole, Source
from graphviz_dash.model.trace import Trace

_GZIP_MAGIC: Final = b"\x1f\x8b"


class ImportedRun(Struct, frozen=True):
    """An imported run."""

    path: Path
    sources: tuple[Source, ...]
    absent: tuple[Absent, ...]


def import_files(
    files: Sequence[Path],
    folder: Path,
    *,
    mode: ExecutionMode = ExecutionMode.RECORDED,
    join: bool = False,
    command: Sequence[str] = (),
    limits: Limits = DEFAULT_LIMITS,
    announce: Callable[[str], None] = lambda _: None,
    prefix: str = "",
    skip_existing: bool = False,
) -> tuple[ImportedRun, ...]:
    """Import ``files`` as run bundles into the experiment ``folder``.

    Files of one run are joined (see :mod:`graphviz_dash.importers.group`). All files are read
    before bundles are written, atomically.

    Args:
        announce: Receives one line per stage.
        prefix: Prefix of the runs' names.
        again: Accept an existing run of the same files as done.

    Raises:
        InputError: A file of unknown kind or an unreadable file, duplicates among files to join, or
            an existing run.
    """
    with create_scratch_folder() as scratch:
        parts = _read_parts(files, scratch, limits, announce)
        groups = group_parts(parts, join=join)
        if join and has_duplicates(groups[0].parts):
            raise InputError(
                groups[0].name,
                "two traces of replays, two of captures without replays, two memory snapshots, "
                "or two TORCH_TRACE logs",
                "at most one of each per run",
                "Import them without --join.",
            )
        groups = [select_matching_captures(group, limits) for group in separate_names(groups)]
        if prefix:
            groups = [replace(group, name=build_run_name(prefix + group.name)) for group in groups]
        finished = {
            group.name: _find_finished_import(group, folder) if skip_existing else None
            for group in groups
        }
        ready = [
            (group, _get_new_target(group, folder), build_run_contents(group, limits))
            for group in groups
            if finished[group.name] is None
        ]
        _check_names([target for _, target, _ in ready])
        written = [imported for imported in finished.values() if imported is not None]
        for group, target, contents in ready:
            announce(f"Writing {target.name}")
            written.append(_write_bundle(group, target, contents, mode, tuple(command), scratch))
    return tuple(written)


def _read_parts(
    files: Sequence[Path], scratch: Path, limits: Limits, announce: Callable[[str], None]
) -> list[SourcePart]:
    parts: list[SourcePart] = []
    for number, file in enumerate(files):
        converted = scratch / str(number)
        converted.mkdir()
        announce(f"Reading {file.name}")
        contents = read_foreign(file, converted, limits)
        parts += [_build_part(file, content) for content in contents]
    return parts


def _build_part(file: Path, content: ForeignContent) -> SourcePart:
    if content.trace is None:
        return SourcePart(file, content)
    launched = content.trace.runtime["name"].cast(str).str.contains("GraphLaunch").any()
    captures = bool(find_captured_launches(content.trace))
    # A capture trace contains warm-up besides the capture; graph launches indicate replays.
    is_capture = captures and not launched
    role = FileRole.CAPTURE_TRACE if is_capture else FileRole.REPLAY_TRACE
    return SourcePart(file, content, role, captures)


def _check_names(targets: list[Path]) -> None:
    if len(set(targets)) < len(targets):
        repeated = next(target.name for target in targets if targets.count(target) > 1)
        raise InputError(repeated, "two files of this name", "a different name for each run")


def _find_finished_import(group: SourceGroup, folder: Path) -> ImportedRun | None:
    """Return the existing run of exactly these files, or None."""
    target = _get_target(group, folder)
    if not is_bundle(target):
        return None
    manifest = read_manifest(target)
    hashes = {source.sha256 for source in manifest.sources}
    if not hashes or hashes != {source.sha256 for source in iter_sources(group)}:
        return None
    return ImportedRun(target, manifest.sources, manifest.absent)


def _get_target(group: SourceGroup, folder: Path) -> Path:
    head = read_trace_head(group)
    name = group.name
    if head and head.rank and f"rank{head.rank.rank}" not in name:
        name += f"-rank{head.rank.rank}"
    return folder / name


def _get_new_target(group: SourceGroup, folder: Path) -> Path:
    target = _get_target(group, folder)
    if target.exists() or target.is_symlink():
        advice = "Choose another folder, or remove that run."
        raise InputError(target, "the run already exists", "a new path", advice)
    return target


def _write_bundle(
    group: SourceGroup,
    target: Path,
    contents: RunContents,
    mode: ExecutionMode,
    command: tuple[str, ...],
    scratch: Path,
) -> ImportedRun:
    sources = tuple(iter_sources(group))
    replay_part = group.get_trace(FileRole.REPLAY_TRACE)
    try:
        with BundleWriter(target) as writer:
            for part in (*group.captures, *([] if replay_part is None else [replay_part])):
                if part.role is not None and part.content.trace_file is not None:
                    writer.add_trace(part.role, _copy_as_gzip(part.content.trace_file, scratch))
            for graph in contents.graphs:
                writer.add_graph(graph)
            if contents.ids and replay_part is not None:
                writer.add(parts.REPLAY_IDS, contents.ids)
            if contents.memory is not None:
                writer.add(parts.MEMORY, contents.memory)
            if contents.compilation is not None:
                writer.add(parts.COMPILATION, contents.compilation)
            writer.commit(build_imported_manifest(group, contents, sources, mode, command))
    except OSError as error:
        raise GraphvizDashError(
            f"{target}: writing failed ({error.strerror or error}). No partial run remains."
        ) from error
    return ImportedRun(target, sources, contents.absent)


def _copy_as_gzip(file: Path, scratch: Path) -> Path:
    """Copy a trace, compressing it if necessary."""
    target = scratch / f"{hashlib.sha256(str(file).encode()).hexdigest()[:16]}.json.gz"
    with file.open("rb") as source:
        compressed = source.read(2) == _GZIP_MAGIC
    if compressed:
        shutil.copyfile(file, target)
        return target
    # No limits: the same bytes have already been read within limits.
    unlimited = replace(DEFAULT_LIMITS, decompressed_bytes=1 << 62, expansion=1 << 62)
    with ByteStream(file, unlimited) as stream, igzip.open(target, "wb", compresslevel=2) as out:  # type: ignore[no-untyped-call]
        while data := stream.read():
            out.write(data)
    return target


def select_matching_captures(group: SourceGroup, limits: Limits) -> SourceGroup:
    """Reduce ``group`` to the captures that match the replays, and list other files.

    Groups with fewer than two captures are unchanged. If another file describes the graphs, their
    captures are unknown, so only the best match is kept.

    Raises:
        InputError: A trace is no longer readable.
    """
    captures = group.captures
    replay = group.get_trace(FileRole.REPLAY_TRACE)
    if len(captures) < 2 or replay is None or replay.content.trace is None:
        return group
    scores = _score_captures(captures, replay.content.trace, limits)
    matching = [part for part, score in zip(captures, scores, strict=True) if score > 0]
    if matching and any(part.content.graphs for part in group.parts):
        matching = [captures[max(range(len(captures)), key=lambda index: scores[index])]]
    unused = [part for part in captures if part not in matching]
    parts = tuple(part for part in group.parts if part not in unused)
    names = tuple(sorted(part.source.name for part in unused))
    return replace(group, parts=parts, unmatched_captures=names)


def _score_captures(captures: Sequence[SourcePart], replays: Trace, limits: Limits) -> list[float]:
    """Score each capture: replay rows matched only to it, weighted by confidence."""
    graphs: list[CapturedGraph] = []
    owners: dict[str, int] = {}
    for index, part in enumerate(captures):
        for graph in infer_capture_graphs(part.content.trace, replays, limits):
            name = f"graph-{len(graphs)}"
            owners[name] = index
            graphs.append(msgspec.structs.replace(graph, id=name))
    scores: Counter[int] = Counter()
    if graphs:
        match = match_replays(tuple(graphs), replays)
        for number, confidence in zip(match.graph.tolist(), match.confidence.tolist(), strict=True):
            if number >= 0:
                scores[owners[match.graphs[number]]] += confidence
    return [scores[index] for index in range(len(captures))]


def infer_capture_graphs(
    capture: Trace | None, replays: Trace, limits: Limits
) -> tuple[CapturedGraph, ...]:
    """Infer the graphs from the launches of a capture trace.

    Raises:
        InputError: A trace is no longer readable.
    """
    if capture is None:
        return ()
    rows = [row for launches, _ in find_captured_launches(capture) for row in launches.tolist()]
    return infer_graphs(capture, replays, read_launched_kernels(capture, rows, limits)).graphs
