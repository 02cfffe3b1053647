"""Reading a run bundle: every file is checked against the manifest before any of it is believed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path, PurePosixPath
from typing import TypeVar

import msgspec

from graphviz_dash.bundle.node_id_parts import check_graph_ids, check_node_ids, unpacked
from graphviz_dash.bundle.schema import (
    MANIFEST,
    MAX_MANIFEST_BYTES,
    MAX_PART_BYTES,
    MAX_TRACE_BYTES,
    PLACES,
    READABLE,
    graph_place,
)
from graphviz_dash.bundle.write import sha256_of
from graphviz_dash.errors import InputError
from graphviz_dash.model.doctor import DoctorReport
from graphviz_dash.model.graph import (
    PARAMS_OF,
    CapturedGraph,
    ConditionalParams,
    MemFreeParams,
    NodeKind,
)
from graphviz_dash.model.memory import MemoryPass, Stage
from graphviz_dash.model.node_ids import GraphIds, NodeIdPass
from graphviz_dash.model.observers import Observer, ObserverPass
from graphviz_dash.model.recording import Recording
from graphviz_dash.model.run import (
    FORMAT_NAME,
    FileEntry,
    FileRole,
    GraphUpdates,
    Manifest,
    MemoryUse,
)
from graphviz_dash.model.timings import CleanTimings

T = TypeVar("T")

_TRACES = (FileRole.CAPTURE_TRACE, FileRole.REPLAY_TRACE)
_LINK = ("a symbolic link", "a plain file inside the bundle")
_TAMPERED = "The bundle was changed or damaged after it was written: copy it anew."


@dataclass(frozen=True)
class BundleContents:
    """A bundle's parts, checked. Traces are given as paths, for the ingest to read."""

    path: Path
    manifest: Manifest
    clean: CleanTimings | None
    memory: MemoryUse | None
    graphs: tuple[CapturedGraph, ...]
    capture_trace: Path | None
    replay_trace: Path | None
    memory_pass: MemoryPass | None = None
    replay_ids: tuple[GraphIds, ...] = ()
    node_ids: NodeIdPass | None = None
    recording: Recording | None = None
    doctor: DoctorReport | None = None
    updates: GraphUpdates | None = None
    observers: ObserverPass | None = None


class _Envelope(msgspec.Struct):
    """The two fields by which a manifest is known before the rest is looked at."""

    format: str
    version: int


def is_bundle(path: Path) -> bool:
    """Whether ``path`` is a folder with a manifest in it (which may still be damaged)."""
    return (path / MANIFEST).is_file()


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
            raise InputError(path, f"no {MANIFEST} in it", "the folder of a run bundle")
        _check_limit(file, MAX_MANIFEST_BYTES)
        content = file.read_bytes()
    envelope = _decode(content, _Envelope, file)
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
    return _decode(content, Manifest, file)


def read_bundle(path: Path, *, traces: bool = True) -> BundleContents:
    """All parts of the bundle at ``path``, each checked by size and sha256, then by type; without
    ``traces``, which may be large, the sha256 of these is not looked at.

    Raises:
        InputError: anything that is not as the manifest or docs/bundle-format.md says.
    """
    manifest = read_manifest(path)
    with _refusals_as_input_errors(path):
        files = _checked_files(path, manifest, traces=traces)
        graphs = tuple(
            _read_part(file, CapturedGraph) for role, file in files if role is FileRole.GRAPH
        )
        _check_graph_ids(graphs, manifest, path)
        for graph in graphs:
            _check_graph(graph, path)
            _check_params(graph, path)
            _check_operands(graph, path)
        _check_bodies(graphs, path)
        single = {role: file for role, file in files if role is not FileRole.GRAPH}
        clean = single.get(FileRole.CLEAN)
        memory = single.get(FileRole.MEMORY)
        recording = single.get(FileRole.RECORDING)
        recorded = _read_part(recording, Recording) if recording else None
        if recorded is not None:
            _check_recording(recorded, graphs, path)
        doctor = single.get(FileRole.DOCTOR)
        return BundleContents(
            path=path,
            manifest=manifest,
            clean=_read_part(clean, CleanTimings) if clean else None,
            memory=_read_part(memory, MemoryUse) if memory else None,
            graphs=graphs,
            capture_trace=single.get(FileRole.CAPTURE_TRACE),
            replay_trace=single.get(FileRole.REPLAY_TRACE),
            memory_pass=_read_memory_pass(single.get(FileRole.MEMORY_PASS)),
            replay_ids=_replay_ids(single.get(FileRole.REPLAY_IDS), graphs),
            node_ids=_node_ids(single.get(FileRole.NODE_IDS), graphs),
            recording=recorded,
            doctor=_read_part(doctor, DoctorReport) if doctor else None,
            updates=_read_updates(single.get(FileRole.UPDATES), graphs),
            observers=_read_observers(single.get(FileRole.OBSERVERS)),
        )


def _replay_ids(file: Path | None, graphs: tuple[CapturedGraph, ...]) -> tuple[GraphIds, ...]:
    if file is None:
        return ()
    ids = _read_part(file, tuple[GraphIds, ...])
    check_graph_ids(ids, graphs, file)
    return ids


def _node_ids(file: Path | None, graphs: tuple[CapturedGraph, ...]) -> NodeIdPass | None:
    if file is None:
        return None
    found = _decode(unpacked(file), NodeIdPass, file)
    check_node_ids(found, graphs, file)
    return found


def _read_updates(file: Path | None, graphs: tuple[CapturedGraph, ...]) -> GraphUpdates | None:
    if file is None:
        return None
    updates = _read_part(file, GraphUpdates)
    # Without a capture pass the graphs are not in the bundle, and their answers stand alone.
    known = {graph.id: graph for graph in graphs}
    for pair in updates.pairs if known else ():
        for name in (pair.of, pair.by):
            if name not in known or known[name].parent is not None:
                expected = "the id of a graph that is launched by itself"
                raise InputError(file, f"an update of graph {name!r}", expected)
        at = known.get(pair.answer.graph or pair.by)
        node = pair.answer.node
        if at is None or (node is not None and node >= len(at.nodes)):
            raise InputError(file, f"node {node} of {pair.answer.graph!r}", "a node of the bundle")
    return updates


def _read_observers(file: Path | None) -> ObserverPass | None:
    """Refuses a series without a step, one with more rows than steps, and a pass in which nothing
    was timed without an observer: then there is nothing to compare with."""
    if file is None:
        return None
    found = _read_part(file, ObserverPass)
    for one in found.observed:
        rows = len(one.steps), len(one.device_ns), len(one.reported_ns)
        if not rows[0] or max(rows) > found.iterations:
            raise InputError(
                file,
                f"{max(rows):,} rows of {one.observer.value!r} for {rows[0]:,} steps",
                f"from 1 step to {found.iterations:,}, and no more rows than that",
            )
    if not any(one.observer is Observer.NONE for one in found.observed):
        raise InputError(file, "every series is observed", "one with nothing attached")
    return found


def _checked_files(
    path: Path, manifest: Manifest, *, traces: bool = True
) -> list[tuple[FileRole, Path]]:
    seen: set[str] = set()
    files = []
    for entry in manifest.files:
        if entry.path in seen:
            raise InputError(path / MANIFEST, f"{entry.path!r} listed twice", "each file once")
        seen.add(entry.path)
        whole = traces or entry.role not in _TRACES
        files.append((entry.role, checked_file(path, entry, whole=whole)))
    return files


def checked_file(path: Path, entry: FileEntry, *, whole: bool = True) -> Path:
    """The file of ``entry`` in the bundle at ``path``; its content is checked if asked ``whole``.

    Raises:
        InputError: it lies elsewhere, is a link or no file, too large, or not what was written.
    """
    expected = PLACES.get(entry.role)
    pure = PurePosixPath(entry.path)
    in_place = (
        entry.path == expected
        if expected
        else len(pure.parts) == 2 and entry.path == graph_place(pure.stem) and pure.stem != ""
    )
    if not in_place or "\0" in entry.path or "\\" in entry.path:
        raise InputError(
            path / MANIFEST,
            f"{entry.role.value} file at {entry.path!r}",
            repr(expected or graph_place("<id>")),
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
    _check_limit(file, MAX_TRACE_BYTES if entry.role in _TRACES else MAX_PART_BYTES)
    if not whole:
        return file
    digest = sha256_of(file)
    if digest != entry.sha256:
        raise InputError(file, f"sha256 {digest[:16]}…", f"{entry.sha256[:16]}…", _TAMPERED)
    return file


def _check_graph(graph: CapturedGraph, path: Path) -> None:
    where = path / graph_place(graph.id)
    count = len(graph.nodes)
    for place, node in enumerate(graph.nodes):
        if node.index != place:
            raise InputError(where, f"node {node.index} at place {place}", "nodes in index order")
    for edge in graph.edges:
        if edge.source >= count or edge.target >= count or edge.source == edge.target:
            raise InputError(
                where,
                f"an edge from node {edge.source} to node {edge.target}",
                f"two different nodes of the {count:,} in the graph",
            )
    # A capture creates nodes after what they depend on, so a cycle needs an edge that goes back.
    if any(edge.source > edge.target for edge in graph.edges):
        order: TopologicalSorter[int] = TopologicalSorter()
        for edge in graph.edges:
            order.add(edge.target, edge.source)
        try:
            order.prepare()
        except CycleError as error:
            found = f"a cycle through node {min(error.args[1])}"
            raise InputError(where, found, "a graph without cycles") from error


def _check_params(graph: CapturedGraph, path: Path) -> None:
    """Refuses parameters of another kind of node, and a free of what no node allocated."""
    where = path / graph_place(graph.id)
    for node in graph.nodes:
        params = node.params
        if params is not None and type(params) is not PARAMS_OF.get(node.kind):
            raise InputError(
                where,
                f"node {node.index} of kind {node.kind.value} with the parameters of another kind",
                "the parameters of its own kind, or none",
            )
        if isinstance(params, MemFreeParams) and params.allocated_by is not None:
            by = params.allocated_by
            if by >= len(graph.nodes) or graph.nodes[by].kind is not NodeKind.MEM_ALLOC:
                raise InputError(
                    where,
                    f"node {node.index} frees what node {by} allocated",
                    "the index of a node of kind MemAlloc",
                )
        if node.bodies and node.kind not in (NodeKind.CHILD_GRAPH, NodeKind.CONDITIONAL):
            raise InputError(
                where,
                f"node {node.index} of kind {node.kind.value} with bodies",
                "bodies of nodes of kind ChildGraph or Conditional",
            )
        if isinstance(params, ConditionalParams) and (
            params.size is not None and len(node.bodies) not in (0, params.size)
        ):
            raise InputError(
                where,
                f"node {node.index} with {len(node.bodies)} bodies of {params.size}",
                "all of its bodies, or none where they were not read",
            )


def _check_operands(graph: CapturedGraph, path: Path) -> None:
    """Refuses operands that are empty, out of order or overlap."""
    where = path / graph_place(graph.id)
    for node in graph.nodes:
        last = (-1, 0)
        for one in node.operands or ():
            if one.bytes == 0 or (one.allocation, one.offset) < last:
                raise InputError(
                    where,
                    f"node {node.index} with operands that are empty, out of order or overlap",
                    "operands of at least a byte, by allocation and offset, apart from each other",
                )
            last = (one.allocation, one.offset + one.bytes)


def _check_recording(recording: Recording, graphs: tuple[CapturedGraph, ...], path: Path) -> None:
    """Refuses a recording that does not fit the bundle's graphs."""
    where = path / PLACES[FileRole.RECORDING]
    nodes = {graph.id: len(graph.nodes) for graph in graphs}
    seen: set[str] = set()
    for graph in recording.graphs:
        if graph.graph in seen:
            raise InputError(where, f"graph {graph.graph!r} twice", "each capture once")
        seen.add(graph.graph)
        if graph.nodes and nodes.get(graph.graph) != graph.nodes:
            there = nodes.get(graph.graph)
            what = "is not there" if there is None else f"has {there}"
            found = f"{graph.nodes} nodes of {graph.graph!r}, which {what}"
            raise InputError(where, found, "the nodes of the graph's file")
        if graph.window_replays > graph.replays:
            found = f"{graph.window_replays} of {graph.replays} replays in the window"
            raise InputError(where, found, "no more than there were")


def _check_bodies(graphs: tuple[CapturedGraph, ...], path: Path) -> None:
    """Refuses a body that does not name the node that holds it, or the other way round, and a graph
    inside itself: so whoever descends into bodies comes to an end."""
    by_id = {graph.id: graph for graph in graphs}
    held: set[str] = set()
    for graph in graphs:
        for node in graph.nodes:
            for body in node.bodies:
                if body not in by_id or by_id[body].parent != (graph.id, node.index):
                    raise InputError(
                        path / graph_place(graph.id),
                        f"node {node.index} with body {body!r}",
                        f"a graph of that id whose parent is node {node.index} of {graph.id!r}",
                    )
                held.add(body)
    for graph in graphs:
        if graph.parent is not None and graph.id not in held:
            raise InputError(
                path / graph_place(graph.id),
                f"parent node {graph.parent[1]} of {graph.parent[0]!r}",
                "a node that names this graph as its body",
            )
    for graph in graphs:
        seen = {graph.id}
        above = graph.parent
        while above is not None:
            if above[0] in seen:
                raise InputError(
                    path / graph_place(graph.id), "a graph inside itself", "bodies as a tree"
                )
            seen.add(above[0])
            above = by_id[above[0]].parent


def _read_memory_pass(file: Path | None) -> MemoryPass | None:
    """Refuses other stages, a place outside its segment, and one in a segment not listed."""
    if file is None:
        return None
    found = _read_part(file, MemoryPass)
    stages = [row.stage.value for row in found.stages]
    if stages != [stage.value for stage in Stage]:
        raise InputError(file, f"stages {', '.join(stages) or 'none'}", f"{', '.join(Stage)}")
    sizes = [segment.bytes for segment in found.segments]
    places = [(place.segment, place.begin, place.end) for place in found.live]
    for graph in found.graphs:
        places += [(place.segment, place.begin, place.end) for place in graph.extents]
    for segment, begin, end in places:
        if segment >= len(sizes):
            raise InputError(file, f"segment {segment}", f"one of the {len(sizes)} listed")
        if not begin < end <= sizes[segment]:
            raise InputError(
                file,
                f"bytes {begin} to {end} of segment {segment}",
                f"a stretch inside its {sizes[segment]} bytes",
            )
    return found


def _check_graph_ids(graphs: tuple[CapturedGraph, ...], manifest: Manifest, path: Path) -> None:
    listed = [entry.path for entry in manifest.files if entry.role is FileRole.GRAPH]
    for graph, place in zip(graphs, listed, strict=True):
        if graph_place(graph.id) != place:
            raise InputError(path / place, f"a graph with id {graph.id!r}", f"id for {place!r}")


def _read_part(file: Path, kind: type[T]) -> T:
    return _decode(file.read_bytes(), kind, file)


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


def _decode(content: bytes, kind: type[T], file: Path) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError as error:
        raise InputError(file, str(error), "the types of docs/bundle-format.md") from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InputError(file, f"not readable as JSON ({error})", "a JSON document") from error
