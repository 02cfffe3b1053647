"""Reader of captured graphs from the driver's debug DOT (cudaGraphDebugDotPrint,
CUDAGraph.debug_dump).

Only with the verbose flags do nodes include parameters. Ports and types of edges are never
included, so all edges are read as full dependencies.
"""

from __future__ import annotations

import re
from math import prod
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field

from graphviz_dash.bundle.debug_dot import DotText, parse_bodies, parse_dot_graphs
from graphviz_dash.errors import InputError
from graphviz_dash.ingest.formats.text import read_text
from graphviz_dash.ingest.limits import DEFAULT_LIMITS, Limits
from graphviz_dash.ingest.names import demangle_names
from graphviz_dash.model.graph import (
    CapturedGraph,
    ConditionalParams,
    Dim3,
    GraphEdge,
    GraphNode,
    KernelParams,
    MemcpyParams,
    MemsetParams,
    NodeKind,
    Params,
)
from graphviz_dash.units import pluralize

SOURCE_API: Final = "cudaGraphDebugDotPrint"

_EXPECTED: Final = "the text of cudaGraphDebugDotPrint"
_MAX_INTEGER: Final = (1 << 63) - 1
_MAX_DIGITS: Final = 20
_ID: Final = re.compile(r"\{\s*+ID\s*+\|\s*+\d++\s*+(?:\(topoId: \d++\)\s*+)?\|")
_OPENING: Final = re.compile(r"^(?:digraph|subgraph)\b[^\n{]*\{[ \t]*$", re.M)
_CLOSING: Final = re.compile(r"^\}[ \t]*$", re.M)
_CHILD: Final = re.compile(r"(?:^|[|{\s])graph_(\d+)(?:$|[|}\s])", re.M)
_LAUNCH: Final = r"\<\<\<"
_LAUNCH_END: Final = r"\>\>\>"
_DIM: Final = re.compile(r"\\\{([\d, ]+)\\\}|(\d+)")
_ESCAPE: Final = re.compile(r"\\(.)", re.S)
_FLAG: Final = re.compile(r"\{\s*(cooperative|priority)\s*\|\s*(-?\d+)\s*\}")
_COPY_PATTERN: Final = re.compile(r"\{\s*kind\s*\|\s*(\w+)(?: \((\w+) to (\w+)\))?")
_EXTENT: Final = re.compile(r"\{\s*(Width|Height|Depth)\s*\|\s*(\d+)\s*\}")
_PLAIN_COPY: Final = re.compile(r"^\((\w+),\s*(\d+)\)\s*$", re.M)
_MEMSET_TABLE: Final = re.compile(r"\{\{\s*ID\s*\|([^{}]*)\}\s*\|\s*\{([^{}]*)\}\}")
_DIRECTIONS: Final = {"HtoD": ("host", "device"), "DtoH": ("device", "host"),
                      "DtoD": ("device", "device"), "HtoH": ("host", "host")}  # fmt: skip
_MEMORIES: Final = frozenset({"host", "device", "array", "unified"})

_KIND_WORDS: Final = (
    (NodeKind.KERNEL, ("KERNEL",)),
    (NodeKind.MEMCPY, ("MEMCPY",)),
    (NodeKind.MEMSET, ("MEMSET",)),
    (NodeKind.CONDITIONAL, ("CONDITIONAL",)),
    (NodeKind.EMPTY, ("EMPTY",)),
    (NodeKind.HOST, ("HOST",)),
    (NodeKind.BATCH_MEM_OP, ("BATCHMEMOP", "BATCH_MEM_OP")),
    (NodeKind.MEM_ALLOC, ("MEM_ALLOC", "MEMALLOC")),
    (NodeKind.MEM_FREE, ("MEM_FREE", "MEMFREE")),
    (NodeKind.SEMAPHORE_SIGNAL, ("EXT_SEMAS_SIGNAL", "SEMAPHORE_SIGNAL", "SIGNAL_SEMAPHORE")),
    (NodeKind.SEMAPHORE_WAIT, ("EXT_SEMAS_WAIT", "SEMAPHORE_WAIT", "WAIT_SEMAPHORE")),
    (NodeKind.EVENT_RECORD, ("EVENT_RECORD", "RECORD_EVENT")),
    (NodeKind.EVENT_WAIT, ("EVENT_WAIT", "WAIT_EVENT")),
)
_CHILD_WORDS: Final = ("GRAPH", "CHILD_GRAPH", "CHILDGRAPH")


def read_debug_dot(path: Path, limits: Limits = DEFAULT_LIMITS) -> tuple[CapturedGraph, ...]:
    """Read the graphs of a debug DOT, each followed by its bodies.

    Raises:
        InputError: Unreadable, not a debug DOT, an unknown node kind, an edge to a missing node, a
            graph inside itself, or more than ``limits`` allow.
    """
    text = read_text(path, limits)
    try:
        return _parse_graphs(text, path, limits)
    except ValueError as error:  # Python rejects integers of thousands of digits
        raise InputError(path, "a number of thousands of digits", _EXPECTED) from error


def _parse_graphs(content: str, path: Path, limits: Limits) -> tuple[CapturedGraph, ...]:
    texts = parse_dot_graphs(content)
    _check_complete(content, texts, path)
    if not any(text.labels for text in texts.values()):
        raise InputError(path, "no graph with a node", _EXPECTED)
    reading = _GraphParser(path, limits, texts)
    bodies = {body for text in texts.values() for label in text.labels.values()
            for body in _parse_bodies(label)}  # fmt: skip
    roots = [number for number in texts if number not in bodies]
    if not roots:
        raise InputError(path, "only graphs inside other graphs", "a top-level graph")
    for root_index, number in enumerate(roots):
        reading.add_graph(number, f"graph-{root_index}", None)
    return _demangle_kernels(reading.graphs)


def _check_complete(content: str, texts: dict[int, DotText], path: Path) -> None:
    """Reject a text that ends before all its graphs do."""
    opening_count = len(_OPENING.findall(content))
    if len(_CLOSING.findall(content)) < opening_count:
        nodes = sum(len(text.labels) for text in texts.values())
        edges = sum(len(text.edges) for text in texts.values())
        raise InputError(
            path,
            f"truncated text: it ends within a graph, after {pluralize(nodes, 'complete node')} "
            f"and {pluralize(edges, 'edge')}",
            "the complete text of cudaGraphDebugDotPrint",
            "It was truncated while it was written or copied. Write or copy it again.",
        )


class _GraphParser(Struct):
    """Graphs parsed from one file."""

    path: Path
    limits: Limits
    texts: dict[int, DotText]
    """Text of each graph in the file, by number."""
    graphs: list[CapturedGraph] = field(default_factory=list)
    nodes: int = 0
    """Number of nodes; shared bodies count for each parent."""

    def add_graph(
        self, number: int, ident: str, parent: tuple[str, int] | None, depth: int = 0
    ) -> None:
        """Add a graph, then its bodies. One with two parent nodes is added twice."""
        text = self.texts.get(number)
        if text is None:
            raise InputError(
                self.path, f"a node that contains graph_{number}", "a graph in the file"
            )
        if depth > self.limits.nesting:
            raise self.limits.build_error(self.path, "nesting", "graphs nested too deeply")
        self.nodes += len(text.labels)
        if self.nodes > self.limits.nodes:
            raise self.limits.build_error(self.path, "nodes", f"{self.nodes:,} nodes or more")
        index = {name: node_index for node_index, name in enumerate(text.labels)}
        nodes, body_graphs = [], []
        for node_index, label in enumerate(text.labels.values()):
            bodies = _parse_bodies(label)
            child = _parse_kind(label) is NodeKind.CHILD_GRAPH
            ids = tuple(
                f"{ident}.{node_index}" if child else f"{ident}.{node_index}.{body_index}"
                for body_index in range(len(bodies))
            )
            body_graphs += [
                (body, name, (ident, node_index)) for body, name in zip(bodies, ids, strict=True)
            ]
            nodes.append(self._parse_node(node_index, label, ids))
        self.graphs.append(
            CapturedGraph(ident, tuple(nodes), self._parse_edges(text, index), SOURCE_API, parent)
        )
        for body, name, holder_node in body_graphs:
            self.add_graph(body, name, holder_node, depth + 1)

    def _parse_node(self, node_index: int, label: str, bodies: tuple[str, ...]) -> GraphNode:
        kind = _parse_kind(label)
        if kind is None:
            description = f"a node of unknown kind: {' '.join(label.split())[:80]}"
            raise InputError(self.path, description, _EXPECTED)
        max_length = self.limits.string_length
        if len(label) > max_length:
            description = f"a label of {len(label):,} characters"
            raise self.limits.build_error(self.path, "string_length", description)
        return GraphNode(node_index, kind, _parse_params(kind, label, len(bodies)), bodies)

    def _parse_edges(self, text: DotText, index: dict[int, int]) -> tuple[GraphEdge, ...]:
        edges = []
        for source, target in text.edges:
            if source not in index or target not in index:
                missing = source if source not in index else target
                raise InputError(self.path, f"an edge to node {missing}", "a node of the graph")
            edges.append(GraphEdge(index[source], index[target]))
        return tuple(dict.fromkeys(edges))


def _parse_bodies(label: str) -> tuple[int, ...]:
    kind, bodies = parse_bodies(label)
    if kind is not None:
        return bodies
    if _parse_kind(label) is NodeKind.CHILD_GRAPH and (child := _CHILD.search(label)):
        return (int(child[1]),)
    return ()


def _split_lines(label: str) -> list[str]:
    return [line.strip() for line in label.splitlines() if line.strip()]


def _parse_kind(label: str) -> NodeKind | None:
    """Parse the kind of a node: the start of a record, or else the second line."""
    lines = _split_lines(label)
    if not lines:
        return None
    record = lines[0].startswith("{")
    first_field = lines[0].lstrip("{").split("|")[0].strip() if record else ""
    if record and not first_field and len(lines) > 1:
        first_field = lines[1].lstrip("|{ ").split("|")[0].strip()
    word = first_field if record else lines[1] if len(lines) > 1 else ""
    for kind, words in _KIND_WORDS:
        if word.upper() in words:
            return kind
    if word.upper() in _CHILD_WORDS or re.fullmatch(r"graph_\d+", word):
        return NodeKind.CHILD_GRAPH
    return None if record or not word else NodeKind.KERNEL


def _parse_params(kind: NodeKind, label: str, bodies: int) -> Params | None:
    match kind:
        case NodeKind.KERNEL:
            return _parse_kernel(label)
        case NodeKind.MEMCPY:
            return _parse_memcpy(label)
        case NodeKind.MEMSET:
            return _parse_memset(label)
        case NodeKind.CONDITIONAL:
            return ConditionalParams(parse_bodies(label)[0], bodies or None)
        case _:
            return None


def _parse_kernel(label: str) -> KernelParams | None:
    launch = _split_verbose_launch(label) or _split_plain_launch(label)
    if launch is None:
        return None
    name = _ESCAPE.sub(r"\1", launch[0]).strip()
    sizes = [_parse_dim3(*extents) for extents in _DIM.findall(launch[1])]
    flags = {word: _parse_integer(value) for word, value in _FLAG.findall(label)}
    grid, block, shared = sizes if len(sizes) == 3 else (None, None, None)
    return KernelParams(
        name=name,
        demangled=name,
        grid=grid,
        block=block,
        dynamic_shared=None if shared is None else shared[0],
        cooperative=bool(flags["cooperative"]) if "cooperative" in flags else None,
        priority=flags.get("priority"),
    )


def _split_verbose_launch(label: str) -> tuple[str, str] | None:
    r"""Split the kernel name and launch of a record, as in ``{ID 0 fill\\<\\<\\<4,32,0\\>\\>\\>}``.

    Plain searches keep the time linear.
    """
    head = _ID.search(label)
    if head is None:
        return None
    name, opening, rest = label[head.end() :].partition(_LAUNCH)
    launch, ending, remainder = rest.partition(_LAUNCH_END)
    if not opening or not ending or not remainder.lstrip().startswith("}"):
        return None
    return name, launch


def _split_plain_launch(label: str) -> tuple[str, str] | None:
    lines = _split_lines(label)
    if len(lines) < 2 or lines[0].startswith("{"):
        return None
    name, opening, launch = lines[1].partition(_LAUNCH)
    if not opening or not launch.endswith(_LAUNCH_END):
        return lines[1], ""
    return name, launch.removesuffix(_LAUNCH_END)


def _parse_integer(digits: str) -> int | None:
    """Parse a 64-bit number. None for longer ones."""
    value = int(digits) if len(digits) <= _MAX_DIGITS else _MAX_INTEGER + 1
    return value if abs(value) <= _MAX_INTEGER else None


def _parse_dim3(several: str, single: str) -> Dim3 | None:
    parts = [part.strip() for part in (several or single).split(",") if part.strip()]
    values = [value for part in parts[:4] if (value := _parse_integer(part)) is not None]
    if not 1 <= len(values) <= 3 or len(values) != len(parts):
        return None
    x, y, z = (*values, 1, 1)[:3]
    return x, y, z


def _parse_memcpy(label: str) -> MemcpyParams | None:
    verbose = _COPY_PATTERN.search(label)
    extents = ((word, _parse_integer(digits)) for word, digits in _EXTENT.findall(label))
    extent = {word: size for word, size in extents if size is not None}
    if verbose and len(extent) == 3:
        width, height, depth = extent["Width"], extent["Height"], extent["Depth"]
        direction = verbose[1]
        source, target = _DIRECTIONS.get(direction, ("unknown", "unknown"))
        if verbose[2] and verbose[2].lower() in _MEMORIES:
            source = verbose[2].lower()
        if verbose[3] and verbose[3].lower() in _MEMORIES:
            target = verbose[3].lower()
    elif plain := _PLAIN_COPY.search(label):
        size = _parse_integer(plain[2])
        if size is None:
            return None
        direction, width, height, depth = plain[1], size, 1, 1
        source, target = _DIRECTIONS.get(direction, ("unknown", "unknown"))
    else:
        return None
    if prod((width, height, depth)) > _MAX_INTEGER or max(width, height, depth) > _MAX_INTEGER:
        return None
    copy_kind = direction if direction in _DIRECTIONS else "unknown"
    return MemcpyParams(source, target, copy_kind, width * height * depth, width, height, depth)


def _parse_memset(label: str) -> MemsetParams | None:
    table = _MEMSET_TABLE.search(label)
    if table is None:
        return None
    titles = ["ID", *(title.strip() for title in table[1].split("|"))]
    by_title = dict(zip(titles, (value.strip() for value in table[2].split("|")), strict=False))
    try:
        value, size, width, height = (
            int(by_title[title], 0) for title in ("value", "elementSize", "width", "height")
        )
    except (KeyError, ValueError):
        return None
    if min(value, size, width, height) < 0 or size * width * max(height, 1) > _MAX_INTEGER:
        return None
    return MemsetParams(value, size, width, height, size * width * max(height, 1))


def _demangle_kernels(graphs: list[CapturedGraph]) -> tuple[CapturedGraph, ...]:
    kernels = [
        node.params for graph in graphs for node in graph.nodes
        if isinstance(node.params, KernelParams)
    ]  # fmt: skip
    texts = demangle_names({kernel.name for kernel in kernels})
    replace = msgspec.structs.replace
    return tuple(
        replace(
            graph,
            nodes=tuple(
                replace(node, params=replace(node.params, demangled=texts[node.params.name]))
                if isinstance(node.params, KernelParams)
                else node
                for node in graph.nodes
            ),
        )
        for graph in graphs
    )
