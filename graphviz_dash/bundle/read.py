"""Reader of run bundles. Every file is checked against the manifest before use."""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from graphviz_dash.bundle.files import build_folder_error, check_utf8
from graphviz_dash.bundle.graph_checks import check_graphs
from graphviz_dash.bundle.parts import (
    JSON_PARTS,
    PATHS_BY_ROLE,
    TRACE_PATHS,
    JsonPart,
    decode,
    format_graph_path,
    get_max_bytes,
    is_valid_path,
    parse_capture_number,
    parse_graph_id,
    unpack_graph,
)
from graphviz_dash.bundle.schema import MANIFEST_FILE, MAX_MANIFEST_BYTES, SUPPORTED_VERSIONS
from graphviz_dash.bundle.write import compute_sha256
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
    format_node_label,
)
from graphviz_dash.model.node_names import CODE_TYPE, NodeNames
from graphviz_dash.model.run import FORMAT_NAME, FileEntry, FileRole, Manifest, RunParts

_LINK_ERROR = ("a symbolic link", "a plain file inside the bundle")
_CAPTURE_ROLE = FileRole.CAPTURE_TRACE
_MAX_LISTED_RUNS = 8
_COPY_AGAIN = "The bundle was changed or damaged after it was written. Copy it again."


class BundleContents(RunParts, frozen=True, kw_only=True):
    """Validated parts of a bundle, with the paths of its traces."""

    capture_traces: tuple[Path, ...]
    """Traces of the captures, in order."""
    replay_trace: Path | None
    """Trace of the steps. None if missing."""

    @property
    def capture_trace(self) -> Path | None:
        """First trace of the captures. None if missing."""
        return next(iter(self.capture_traces), None)


class _Envelope(msgspec.Struct):
    """Fields that identify a manifest before it is decoded."""

    format: str
    version: int


def is_bundle(path: Path | str) -> bool:
    """Return True if ``path`` is a readable folder with a manifest, which may be damaged."""
    return os.path.isfile(os.path.join(path, MANIFEST_FILE))


def read_manifest(path: Path) -> Manifest:
    """Read the manifest of the bundle at ``path``, without its other files.

    Raises:
        InputError: No manifest, not JSON, another format, an unsupported version, or a field of the
            wrong type; names field and value.
    """
    check_utf8(path)
    file = path / MANIFEST_FILE
    with _convert_os_errors(path):
        if not path.is_dir():
            raise build_folder_error(path, "the folder of a run bundle")
        if file.is_symlink():
            raise InputError(file, *_LINK_ERROR)
        if not file.is_file():
            expected = "the folder of a run bundle"
            raise InputError(path, f"no {MANIFEST_FILE}", expected, _format_runs(path))
        _check_limit(file, MAX_MANIFEST_BYTES)
        content = file.read_bytes()
    envelope = decode(content, _Envelope, file)
    if envelope.format != FORMAT_NAME:
        raise InputError(file, f"format {envelope.format[:80]!r}", f"format {FORMAT_NAME!r}")
    if envelope.version not in SUPPORTED_VERSIONS:
        newer = envelope.version > max(SUPPORTED_VERSIONS)
        raise InputError(
            file,
            f"bundle format version {envelope.version}",
            (
                f"version {' or '.join(map(str, SUPPORTED_VERSIONS))}, which this graphviz-dash "
                "supports"
            ),
            "Install a newer graphviz-dash to read it." if newer else "",
        )
    return decode(content, Manifest, file, envelope.version)


def _format_runs(folder: Path) -> str:
    """List an experiment's runs as advice. Empty for other folders."""
    runs = sorted(child.name for child in folder.iterdir() if is_bundle(child))
    more = " and others" if len(runs) > _MAX_LISTED_RUNS else ""
    return f"Runs in this folder: {', '.join(runs[:_MAX_LISTED_RUNS])}{more}." if runs else ""


def read_bundle(path: Path, *, traces: bool = True) -> BundleContents:
    """Read all parts of the bundle at ``path``, checking size, sha256 and type of each.

    Without ``traces``, the sha256 of the traces, which may be large, is not checked.

    Raises:
        InputError: Content that contradicts the manifest or docs/reference/bundle-format.md.
    """
    manifest = read_manifest(path)
    with _convert_os_errors(path):
        files = _check_files(path, manifest, traces=traces)
        graphs = _read_graphs(
            path, [file for role, file in files if role is FileRole.GRAPH], manifest.version
        )
        single = dict(files)
        contents = {}
        for part in JSON_PARTS:
            if (file := single.get(part.role)) is not None:
                content = part.read(file, manifest.version)
                part.validate(content, graphs, file)
                contents[part.field] = content
        return BundleContents(
            path=path,
            manifest=manifest,
            graphs=graphs,
            capture_traces=_sort_captures(
                path, [file for role, file in files if role is _CAPTURE_ROLE]
            ),
            replay_trace=single.get(FileRole.REPLAY_TRACE),
            **contents,
        )


def _sort_captures(path: Path, files: list[Path]) -> tuple[Path, ...]:
    numbered = {parse_capture_number(file.relative_to(path).as_posix()): file for file in files}
    if sorted(numbered) != list(range(len(numbered))):
        numbers = ", ".join(map(str, sorted(numbered)))
        raise InputError(path, f"capture traces {numbers}", "consecutive numbers from 0")
    return tuple(numbered[number] for number in sorted(numbered))


def read_parts(path: Path, parts: Sequence[JsonPart[Any]]) -> RunParts:
    """Read the manifest and the available ``parts`` of the bundle at ``path``.

    Checks size, sha256 and type, but does not read the graphs, which may have a million nodes.

    Raises:
        InputError: As in :func:`read_bundle`.
    """
    manifest = read_manifest(path)
    entries_by_role = {entry.role: entry for entry in manifest.files}
    with _convert_os_errors(path):
        contents: dict[str, Any] = {
            part.field: part.read(check_file(path, entries_by_role[part.role]), manifest.version)
            for part in parts
            if part.role in entries_by_role
        }
    return RunParts(path=path, manifest=manifest, **contents)


class _KernelName(msgspec.Struct, tag_field="of", tag="kernel", gc=False):
    """Parameters that a kernel's name requires."""

    demangled: str


class _NodeNameFields(msgspec.Struct, gc=False):
    """Fields of a node that its name requires."""

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


class _GraphNameFields(msgspec.Struct):
    nodes: tuple[_NodeNameFields, ...]


def read_node_names(path: Path, graphs: Collection[str]) -> NodeNames:
    """Read the node names of those ``graphs`` that the bundle at ``path`` contains.

    Checks size and sha256 of each file, but skips other content, which is five times faster.

    Raises:
        InputError: As in :func:`read_bundle`.
    """
    manifest = read_manifest(path)
    entries = {
        parse_graph_id(entry.path): entry
        for entry in manifest.files
        if entry.role is FileRole.GRAPH
    }
    names: dict[str, int] = {}
    codes = {}
    with _convert_os_errors(path):
        for graph in graphs:
            if (entry := entries.get(graph)) is None:
                continue
            file = path / entry.path
            content = check_file(path, entry, check_hash=False).read_bytes()
            _check_digest(file, hashlib.sha256(content).hexdigest(), entry)
            nodes = decode(unpack_graph(content, file), _GraphNameFields, file).nodes
            labels = (_get_node_name(node) for node in nodes)
            codes[graph] = array(
                CODE_TYPE, [names.setdefault(n, len(names)) for n in labels]
            ).tobytes()
    return NodeNames(tuple(names), codes)


def _get_node_name(node: _NodeNameFields) -> str:
    params = node.params
    if isinstance(params, _KernelName):
        return params.demangled
    return format_node_label(node.kind, params)


def _read_graphs(path: Path, files: list[Path], version: int) -> tuple[CapturedGraph, ...]:
    graphs = tuple(
        decode(unpack_graph(file.read_bytes(), file), CapturedGraph, file, version)
        for file in files
    )
    for graph, file in zip(graphs, files, strict=True):
        listed = file.relative_to(path).as_posix()
        if parse_graph_id(listed) != graph.id:
            raise InputError(file, f"a graph with id {graph.id!r}", f"id for {listed!r}")
    check_graphs(graphs, path)
    return graphs


def _check_files(
    path: Path, manifest: Manifest, *, traces: bool = True
) -> list[tuple[FileRole, Path]]:
    known_ids: set[str] = set()
    files = []
    for entry in manifest.files:
        if entry.path in known_ids:
            raise InputError(path / MANIFEST_FILE, f"{entry.path!r} listed twice", "each file once")
        known_ids.add(entry.path)
        check_hash = traces or entry.role not in TRACE_PATHS
        files.append((entry.role, check_file(path, entry, check_hash=check_hash)))
    return files


def check_file(path: Path, entry: FileEntry, *, check_hash: bool = True) -> Path:
    """Return the checked file of ``entry`` in the bundle at ``path``.

    Args:
        check_hash: Check the sha256 too.

    Raises:
        InputError: The path is unexpected, a link or not a file, or the file is too large or
            modified.
    """
    if not is_valid_path(entry.role, entry.path):
        raise InputError(
            path / MANIFEST_FILE,
            f"{entry.role.value} file at {entry.path!r}",
            repr(PATHS_BY_ROLE.get(entry.role, format_graph_path("<id>"))),
            "A bundle's files have fixed paths.",
        )
    file = path / entry.path
    # A link could lead out of the bundle. The bundle's folder itself may be a link.
    if file.is_symlink() or (file.parent != path and file.parent.is_symlink()):
        raise InputError(file, *_LINK_ERROR)
    if not file.is_file():
        raise InputError(file, "missing", f"a file of {entry.bytes:,} bytes", _COPY_AGAIN)
    size = file.stat().st_size
    if size != entry.bytes:
        raise InputError(file, f"{size:,} bytes", f"{entry.bytes:,} bytes", _COPY_AGAIN)
    _check_limit(file, get_max_bytes(entry.role))
    if not check_hash:
        return file
    _check_digest(file, compute_sha256(file), entry)
    return file


def _check_digest(file: Path, digest: str, entry: FileEntry) -> None:
    if digest != entry.sha256:
        raise InputError(file, f"sha256 {digest[:16]}…", f"{entry.sha256[:16]}…", _COPY_AGAIN)


def _check_limit(file: Path, limit: int) -> None:
    size = file.stat().st_size
    if size > limit:
        raise InputError(file, f"{size:,} bytes", f"at most {limit:,} bytes")


@contextmanager
def _convert_os_errors(path: Path) -> Iterator[None]:
    """Convert errors of the operating system to InputError."""
    try:
        yield
    except OSError as error:
        source = error.filename or path
        raise InputError(source, error.strerror or "unreadable", "a readable file") from error
