"""Reading a run bundle: every file is checked against the manifest before any of it is believed."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from graphviz_dash.bundle.graph_checks import check_graphs
from graphviz_dash.bundle.parts import (
    FIXED_PATHS,
    JSON_PARTS,
    TRACE_PATHS,
    JsonPart,
    capture_number,
    decode,
    graph_path,
    is_path_of,
    max_bytes,
)
from graphviz_dash.bundle.schema import MANIFEST, MAX_MANIFEST_BYTES, READABLE
from graphviz_dash.bundle.write import sha256_of
from graphviz_dash.errors import InputError
from graphviz_dash.model.graph import (
    BatchMemOpParams,
    CapturedGraph,
    ConditionalParams,
    EventParams,
    HostParams,
    MemAllocParams,
    MemcpyParams,
    MemFreeParams,
    MemsetParams,
    NodeKind,
    SemaphoreParams,
    node_label,
)
from graphviz_dash.model.node_names import CODE, NodeNames
from graphviz_dash.model.run import FORMAT_NAME, FileEntry, FileRole, Manifest, RunParts

_LINK = ("a symbolic link", "a plain file inside the bundle")
_CAPTURE = FileRole.CAPTURE_TRACE
_NAMED = 8
"""Runs of an experiment that an error names."""
_TAMPERED = "The bundle was changed or damaged after it was written: copy it anew."


class BundleContents(RunParts, frozen=True, kw_only=True):
    """A bundle's parts, checked; its traces as paths, for the ingest to read."""

    captures: tuple[Path, ...]
    replay_trace: Path | None

    @property
    def capture_trace(self) -> Path | None:
        """The trace of its captures, or the first of several."""
        return next(iter(self.captures), None)


class _Envelope(msgspec.Struct):
    """The two fields by which a manifest is recognised before the rest is looked at."""

    format: str
    version: int


def is_bundle(path: Path) -> bool:
    """Whether ``path`` is a folder with a manifest in it (which may still be damaged); not where it
    may not be looked into."""
    try:
        return (path / MANIFEST).is_file()
    except OSError:
        return False


def read_manifest(path: Path) -> Manifest:
    """The manifest of the bundle at ``path``, without looking at its other files.

    Raises:
        InputError: no manifest, not JSON, another format, a version other than this tool's, or a
            field of the wrong type; the message names field and value.
    """
    file = path / MANIFEST
    with _refusals_as_input_errors(path):
        if not path.is_dir():
            raise InputError(path, "no such folder", "the folder of a run bundle")
        if file.is_symlink():
            raise InputError(file, *_LINK)
        if not file.is_file():
            expected = "the folder of a run bundle"
            raise InputError(path, f"no {MANIFEST} in it", expected, _runs_in(path))
        _check_limit(file, MAX_MANIFEST_BYTES)
        content = file.read_bytes()
    envelope = decode(content, _Envelope, file)
    if envelope.format != FORMAT_NAME:
        raise InputError(file, f"format {envelope.format[:80]!r}", f"format {FORMAT_NAME!r}")
    if envelope.version not in READABLE:
        newer = envelope.version > max(READABLE)
        raise InputError(
            file,
            f"bundle format version {envelope.version}",
            f"version {' or '.join(map(str, READABLE))}, which this graphviz-dash reads",
            "Install a newer graphviz-dash to read it." if newer else "",
        )
    return decode(content, Manifest, file)


def _runs_in(folder: Path) -> str:
    """What to give instead of the folder of an experiment; empty where it is none."""
    runs = sorted(child.name for child in folder.iterdir() if is_bundle(child))
    more = " and others" if len(runs) > _NAMED else ""
    return f"Runs in it: {', '.join(runs[:_NAMED])}{more}." if runs else ""


def read_bundle(path: Path, *, traces: bool = True) -> BundleContents:
    """All parts of the bundle at ``path``, each checked by size and sha256, then by type; without
    ``traces``, which may be large, the sha256 of these is not looked at.

    Raises:
        InputError: anything that is not as the manifest or docs/reference/bundle-format.md says.
    """
    manifest = read_manifest(path)
    with _refusals_as_input_errors(path):
        files = _checked_files(path, manifest, traces=traces)
        graphs = _graphs(path, [file for role, file in files if role is FileRole.GRAPH])
        single = dict(files)
        contents = {}
        for part in JSON_PARTS:
            if (file := single.get(part.role)) is not None:
                content = part.read(file)
                part.check(content, graphs, file)
                contents[part.field] = content
        return BundleContents(
            path=path,
            manifest=manifest,
            graphs=graphs,
            captures=_captures(path, [file for role, file in files if role is _CAPTURE]),
            replay_trace=single.get(FileRole.REPLAY_TRACE),
            **contents,
        )


def _captures(path: Path, files: list[Path]) -> tuple[Path, ...]:
    """The traces of captures in their order."""
    numbered = {capture_number(file.relative_to(path).as_posix()): file for file in files}
    if sorted(numbered) != list(range(len(numbered))):
        found = ", ".join(map(str, sorted(numbered)))
        raise InputError(path, f"traces of captures {found}", "numbers from 0 on, without a gap")
    return tuple(numbered[number] for number in sorted(numbered))


def read_parts(path: Path, parts: Sequence[JsonPart[Any]]) -> RunParts:
    """Of the bundle at ``path`` the manifest and those of ``parts`` that it has, each checked by
    size, sha256 and type, but not against its graphs, which are not read: they may be of a million
    nodes.

    Raises:
        InputError: as :func:`read_bundle`.
    """
    manifest = read_manifest(path)
    entries = {entry.role: entry for entry in manifest.files}
    with _refusals_as_input_errors(path):
        contents: dict[str, Any] = {
            part.field: part.read(checked_file(path, entries[part.role]))
            for part in parts
            if part.role in entries
        }
    return RunParts(path=path, manifest=manifest, **contents)


class _KernelName(msgspec.Struct, tag_field="of", tag="kernel", gc=False):
    """As much of a kernel node's parameters as its name needs: nearly all nodes are kernels."""

    demangled: str


class _NamedNode(msgspec.Struct, gc=False):
    """As much of a node as its name needs."""

    kind: NodeKind
    params: (
        _KernelName
        | MemcpyParams
        | MemsetParams
        | HostParams
        | MemAllocParams
        | MemFreeParams
        | EventParams
        | SemaphoreParams
        | ConditionalParams
        | BatchMemOpParams
        | None
    ) = None


class _NamedGraph(msgspec.Struct):
    """As much of a graph as the names of its nodes need."""

    nodes: tuple[_NamedNode, ...]


def read_node_names(path: Path, graphs: Collection[str]) -> NodeNames:
    """The names of the nodes of ``graphs``, those of them that the bundle at ``path`` holds. Each
    file is checked by size and sha256, but nothing else of a graph is looked at: names alone are
    read in a fifth of the time.

    Raises:
        InputError: as :func:`read_bundle`.
    """
    manifest = read_manifest(path)
    entries = {entry.path: entry for entry in manifest.files if entry.role is FileRole.GRAPH}
    names: dict[str, int] = {}
    codes = {}
    with _refusals_as_input_errors(path):
        for graph in graphs:
            if (entry := entries.get(graph_path(graph))) is None:
                continue
            file = path / entry.path
            content = checked_file(path, entry, whole=False).read_bytes()
            _check_digest(file, hashlib.sha256(content).hexdigest(), entry)
            nodes = decode(content, _NamedGraph, file).nodes
            labels = (_name(node) for node in nodes)
            codes[graph] = array(CODE, [names.setdefault(n, len(names)) for n in labels]).tobytes()
    return NodeNames(tuple(names), codes)


def _name(node: _NamedNode) -> str:
    params = node.params
    if isinstance(params, _KernelName):
        return params.demangled
    return node_label(node.kind, params)


def _graphs(path: Path, files: list[Path]) -> tuple[CapturedGraph, ...]:
    graphs = tuple(decode(file.read_bytes(), CapturedGraph, file) for file in files)
    for graph, file in zip(graphs, files, strict=True):
        if path / graph_path(graph.id) != file:
            listed = file.relative_to(path).as_posix()
            raise InputError(file, f"a graph with id {graph.id!r}", f"id for {listed!r}")
    check_graphs(graphs, path)
    return graphs


def _checked_files(
    path: Path, manifest: Manifest, *, traces: bool = True
) -> list[tuple[FileRole, Path]]:
    seen: set[str] = set()
    files = []
    for entry in manifest.files:
        if entry.path in seen:
            raise InputError(path / MANIFEST, f"{entry.path!r} listed twice", "each file once")
        seen.add(entry.path)
        whole = traces or entry.role not in TRACE_PATHS
        files.append((entry.role, checked_file(path, entry, whole=whole)))
    return files


def checked_file(path: Path, entry: FileEntry, *, whole: bool = True) -> Path:
    """The file of ``entry`` in the bundle at ``path``; its content is checked if asked ``whole``.

    Raises:
        InputError: it lies elsewhere, is a link or no file, too large, or not what was written.
    """
    if not is_path_of(entry.role, entry.path):
        raise InputError(
            path / MANIFEST,
            f"{entry.role.value} file at {entry.path!r}",
            repr(FIXED_PATHS.get(entry.role, graph_path("<id>"))),
            "A bundle's files lie at fixed places inside it.",
        )
    file = path / entry.path
    # A link could lead out of the bundle; the bundle itself may be reached by one.
    if file.is_symlink() or (file.parent != path and file.parent.is_symlink()):
        raise InputError(file, *_LINK)
    if not file.is_file():
        raise InputError(file, "missing", f"a file of {entry.bytes:,} bytes", _TAMPERED)
    size = file.stat().st_size
    if size != entry.bytes:
        raise InputError(file, f"{size:,} bytes", f"{entry.bytes:,} bytes", _TAMPERED)
    _check_limit(file, max_bytes(entry.role))
    if not whole:
        return file
    _check_digest(file, sha256_of(file), entry)
    return file


def _check_digest(file: Path, digest: str, entry: FileEntry) -> None:
    if digest != entry.sha256:
        raise InputError(file, f"sha256 {digest[:16]}…", f"{entry.sha256[:16]}…", _TAMPERED)


def _check_limit(file: Path, limit: int) -> None:
    size = file.stat().st_size
    if size > limit:
        raise InputError(file, f"{size:,} bytes", f"at most {limit:,} bytes")


@contextmanager
def _refusals_as_input_errors(path: Path) -> Iterator[None]:
    """What the operating system refuses (permission, name too long, disk) becomes an InputError."""
    try:
        yield
    except OSError as error:
        where = error.filename or path
        raise InputError(where, error.strerror or "unreadable", "a readable file") from error
