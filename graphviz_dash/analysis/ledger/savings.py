"""Possible savings of memory and start-up time, each from the facts of one recording."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from math import ceil
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from graphviz_dash.analysis.ledger.graphs import GraphLedger
from graphviz_dash.analysis.ledger.memory import LedgerPart, MemoryLedger
from graphviz_dash.analysis.ledger.startup import StartupLedger, TimePart
from graphviz_dash.analysis.memory.captured_pools import predict_pool_reduction
from graphviz_dash.analysis.memory.executables import estimate_executables
from graphviz_dash.analysis.memory.report import DRIVER_CHUNK
from graphviz_dash.model.graph import NodeKind
from graphviz_dash.model.ledger import SpanKind
from graphviz_dash.model.memory import DEFAULT_POOL, Owner

if TYPE_CHECKING:
    from graphviz_dash.model.ledger import AllocatorState, Ledger
    from graphviz_dash.model.run import Run

MIN_BYTES: Final = 1 << 20
MIN_NS: Final = 10_000_000

LAZY_OUTSIDE_BYTES: Final = 790 << 20
"""Memory outside the allocator with lazy loading: context, kernels and libraries.

Source: evaluation/reports/2026-11-26-ledger.md, 767 to 853 MiB in six programs on an H100."""

LAZY_CONTEXT_BYTES: Final = 524 << 20
LAZY_CONTEXT_NS: Final = 130_000_000
"""Size and time of a context with lazy loading.

Source: evaluation/reports/2026-11-27-ledger.md, the same in all programs on an H100."""

SWITCH_NS_PER_NODE: Final = 1_190
"""Update of an executable per node, from the same report."""

_COLLECTION_GAP_NS: Final = 50_000_000
"""Maximum time between a collection and the capture that it prepares."""

_MIB: Final = 1 << 20
_SEGMENT: Final = 20 * _MIB
"""Size of the allocator's medium segments (kLargeBuffer)."""


class SavingAction(StrEnum):
    """Change of the program."""

    UNUSED_GRAPHS = "capture only sizes that occur"
    ONE_POOL = "capture all graphs into one pool"
    ONE_STREAM = "capture all graphs on one stream"
    WARM_UP_STREAM = "warm up on one stream"
    ORDER = "capture the largest graph first"
    SHARE = "share one executable by cudaGraphExecUpdate"
    FREEZE = "freeze the garbage collector before the captures"
    LAZY_LOADING = "load kernels lazily"
    EXPANDABLE = "use expandable segments (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True)"


class SavingBasis(StrEnum):
    """Source of the size."""

    MEASUREMENT = "measured"
    """The recording contains the bytes or the time that disappear."""
    PREDICTION = "predicted"
    """A model of the allocator or the driver."""


class Saving(Struct, frozen=True):
    """A possible saving."""

    action: SavingAction
    bytes: int
    """Negative if it needs more device memory."""
    ns: int
    """Saved start-up time."""
    basis: SavingBasis
    graphs: tuple[str, ...] = ()
    switch_ns: int | None = None
    """CPU time of a switch between the largest graphs. None without switches."""
    most_bytes: int | None = None
    """Upper end of an interval that starts with ``bytes``. None if ``bytes`` is an estimate."""
    groups: tuple[tuple[str, ...], ...] = ()
    """``graphs`` in groups of equal topology, each of which can share one executable."""


def find_savings(
    run: Run, memory: MemoryLedger | None, startup: StartupLedger, graphs: Sequence[GraphLedger]
) -> tuple[Saving, ...]:
    """Find the possible savings, largest share of memory or time first."""
    ledger = run.ledger
    if ledger is None or memory is None:
        return ()
    candidates = [
        *_find_unused(run, graphs),
        *_find_pools(run, ledger, graphs),
        *_find_streams(run, ledger, graphs),
        *_find_warm_up_streams(ledger),
        *_find_order(run, ledger, graphs),
        *_find_shared(run, graphs),
        *_find_collections(ledger),
        *_find_loading(ledger, memory, startup),
        *_find_expandable(ledger),
    ]
    used, total = memory.end_of_startup.used or 1, startup.total_ns or 1

    def rank(saving: Saving) -> float:
        return -max(saving.bytes / used, saving.ns / total)

    return tuple(
        sorted((s for s in candidates if s.bytes >= MIN_BYTES or s.ns >= MIN_NS), key=rank)
    )


def sum_without(
    graphs: Sequence[GraphLedger],
    names: Iterable[str],
    kernels: Mapping[str, frozenset[str]],
    pool_reduction: int | None = None,
) -> tuple[int, int]:
    """Return the bytes and ns that the captures of ``names`` added, with their warm-ups.

    ``pool_reduction``, if known, replaces the growth of their pool, part of which others would
    cause without them.

    Excludes loading of ``kernels`` (of each graph) that other graphs need too, and the first graph
    of the program and of each function, in whose place another one would load the same kernels and
    compile the same code.
    """
    selection = set(names) - _list_first_graphs(graphs, names)
    other_kernels = frozenset().union(
        *(kernels.get(graph.graph, frozenset()) for graph in graphs if graph.graph not in selection)
    )
    earlier_kernels = set(kernels.get(graphs[0].graph, frozenset())) if graphs else set()
    new_kernels = {}
    for graph in graphs[1:]:
        new_kernels[graph.graph] = kernels.get(graph.graph, frozenset()) - earlier_kernels
        earlier_kernels |= new_kernels[graph.graph]
    usual_ns = _get_median(
        [graph.total_ns for graph in graphs[1:] if graph.total_ns and not new_kernels[graph.graph]]
    )
    size, time = pool_reduction or 0, 0
    for graph in graphs[1:]:
        if graph.graph in selection:
            size += (graph.added_bytes or 0) + max(graph.warm_up_bytes or 0, 0)
            if pool_reduction is not None and graph.reserved_bytes is not None:
                size -= graph.pool_growth_bytes or 0
            time += (graph.total_ns or 0) + (graph.first_launch_ns or 0)
            if usual_ns is not None and (new := new_kernels[graph.graph]):
                loading_ns = max((graph.total_ns or 0) - usual_ns, 0)
                time -= loading_ns * len(new & other_kernels) // len(new)
    return size, time


def _list_first_graphs(graphs: Sequence[GraphLedger], names: Iterable[str]) -> set[str]:
    """Return the first graph of each function that captures others than ``names``."""
    selection = set(names)
    remaining = {graph.function for graph in graphs if graph.graph not in selection}
    first: dict[int, str] = {}
    for graph in graphs:
        if graph.function is not None:
            first.setdefault(graph.function, graph.graph)
    return {name for function, name in first.items() if function in remaining}


def _get_median(values: Sequence[int]) -> int | None:
    return sorted(values)[len(values) // 2] if values else None


def list_kernels(run: Run) -> dict[str, frozenset[str]]:
    """Return the names of each graph's nodes."""
    return {
        graph.id: frozenset(node.label for node in graph.nodes)
        for graph in run.graphs
        if graph.parent is None
    }


class UnusedGraphs(Struct, frozen=True):
    """Graphs that were captured and never replayed, and their cost."""

    graphs: tuple[str, ...]
    capture_ns: int
    """Time of their captures alone, in ns."""
    pool_bytes: int
    """Pool memory that only they use, in bytes, as far as recorded."""
    saved_bytes: int | None
    """Device memory that they and their warm-ups added, in bytes. None without a ledger."""
    saved_ns: int | None
    """Start-up time that they and their warm-ups added, in ns. None without a ledger."""
    has_simulation: bool
    """The pool in ``saved_bytes`` is that of a simulation without them."""


def measure_unused_graphs(run: Run, graphs: Sequence[GraphLedger]) -> UnusedGraphs | None:
    """Measure the cost of the graphs without a replay; None if no graph or each has none.

    ``graphs`` are the ledgers of the run, empty without one.
    """
    captures = run.recording.graphs if run.recording is not None else ()
    idle_graphs = [graph for graph in captures if graph.nodes and not graph.replays]
    if not idle_graphs or len(idle_graphs) == len(captures):
        return None
    names = tuple(graph.graph for graph in idle_graphs)
    costs = [cost for cost in (run.loop.graphs if run.loop else ()) if cost.graph in {*names}]
    size = time = pool_reduction = None
    if graphs:
        pool_reduction = predict_pool_reduction(run, {*names})
        size, time = sum_without(graphs, names, list_kernels(run), pool_reduction)
    return UnusedGraphs(
        graphs=names,
        capture_ns=sum(graph.capture_ns for graph in idle_graphs),
        pool_bytes=sum(cost.exclusive_bytes or 0 for cost in costs),
        saved_bytes=size,
        saved_ns=time,
        has_simulation=pool_reduction is not None,
    )


def _find_unused(run: Run, graphs: Sequence[GraphLedger]) -> Iterator[Saving]:
    cost = measure_unused_graphs(run, graphs)
    if cost is not None and cost.saved_bytes is not None and cost.saved_ns is not None:
        yield Saving(
            SavingAction.UNUSED_GRAPHS,
            cost.saved_bytes,
            cost.saved_ns,
            SavingBasis.PREDICTION if cost.has_simulation else SavingBasis.MEASUREMENT,
            cost.graphs,
        )


def find_last_state(ledger: Ledger) -> AllocatorState | None:
    """Return the last content of the allocator. None without one."""
    return ledger.states[-1] if ledger.states else None


def sum_pools(ledger: Ledger, graphs: Sequence[GraphLedger]) -> dict[tuple[int, int], int]:
    """Return the reserved memory of each private pool of graphs."""
    state = find_last_state(ledger)
    sums: dict[tuple[int, int], int] = defaultdict(int)
    for pool in state.pools if state is not None else ():
        if pool.pool != DEFAULT_POOL:
            sums[pool.pool] += pool.bytes
    if not sums:
        for graph in graphs:
            if graph.pool is not None:
                growth = graph.pool_growth_bytes
                sums[graph.pool] += max(
                    (graph.reserved_bytes if growth is None else growth) or 0, 0
                )
    return dict(sums)


def _find_pools(run: Run, ledger: Ledger, graphs: Sequence[GraphLedger]) -> Iterator[Saving]:
    """Graphs that run one after the other can share the pool of the largest one."""
    sums = sum_pools(ledger, graphs)
    if len(sums) < 2 or len(_list_streams(ledger)) > 1:
        return
    size = sum(sums.values()) - _predict_one_pool(run, ledger, graphs, max(sums.values()))
    yield Saving(SavingAction.ONE_POOL, size, 0, SavingBasis.PREDICTION)


def _predict_one_pool(run: Run, ledger: Ledger, graphs: Sequence[GraphLedger], size: int) -> int:
    """Predict one pool and stream for all graphs, the largest captured first.

    ``size`` is that of the largest graph alone. Each other graph keeps its outputs, and needs more
    during its capture, in the same proportion.
    """
    workspace = find_workspace(ledger)
    outputs = _list_outputs(run, ledger, workspace)
    first = max(graphs, key=lambda graph: graph.reserved_bytes or 0)
    largest = outputs.pop(first.graph, 0)
    if largest <= 0:
        return size
    ratio = (size - workspace) / largest
    free = size - workspace - largest
    for output in sorted(outputs.values(), reverse=True):
        missing = ratio * output - free
        if missing > 0:
            steps = ceil(missing / _SEGMENT)
            size += steps * _SEGMENT
            free += steps * _SEGMENT
        free -= output
    return size


def _list_outputs(run: Run, ledger: Ledger, workspace: int) -> dict[str, int]:
    """Return the bytes that each graph keeps after its capture, without the workspace, which the
    first graph of each stream keeps too.
    """
    costs = {
        cost.graph: cost.exclusive_bytes or 0 for cost in (run.loop.graphs if run.loop else ())
    }
    streams: set[int | None] = set()
    outputs: dict[str, int] = {}
    for graph in ledger.graphs:
        size = costs.get(graph.graph, 0)
        if graph.stream not in streams and size >= workspace:
            size -= workspace
        streams.add(graph.stream)
        outputs[graph.graph] = size
    return outputs


def find_workspace(ledger: Ledger) -> int:
    """Return the size of the workspaces of one stream in a private pool."""
    state = find_last_state(ledger)
    return max(
        (
            block.bytes
            for block in (state.blocks if state is not None else ())
            if block.pool != DEFAULT_POOL and block.owner is Owner.UNOWNED
        ),
        default=0,
    )


def sum_pool_workspaces(ledger: Ledger) -> dict[tuple[int, int], int]:
    """Sum the workspaces of each private pool."""
    state = find_last_state(ledger)
    sums: dict[tuple[int, int], int] = defaultdict(int)
    for block in state.blocks if state is not None else ():
        if block.pool != DEFAULT_POOL and block.owner is Owner.UNOWNED and block.bytes >= _MIB:
            sums[block.pool] += block.bytes
    return dict(sums)


def _list_streams(ledger: Ledger) -> set[int]:
    return {graph.stream for graph in ledger.graphs if graph.stream is not None}


def _find_streams(run: Run, ledger: Ledger, graphs: Sequence[GraphLedger]) -> Iterator[Saving]:
    """Captures on different streams share neither blocks nor workspaces."""
    streams: dict[int, int] = defaultdict(int)
    by_graph = {graph.graph: max(graph.reserved_bytes or 0, 0) for graph in graphs}
    for graph in ledger.graphs:
        if graph.stream is not None:
            streams[graph.stream] += by_graph.get(graph.graph, 0)
    if len(streams) > 1:
        pool_size = _predict_one_pool(run, ledger, graphs, max(streams.values()))
        size = sum(streams.values()) - pool_size
        yield Saving(SavingAction.ONE_STREAM, size, 0, SavingBasis.PREDICTION)


def sum_side_streams(ledger: Ledger) -> dict[int, int]:
    """Return the reserved memory of streams of the default pool that hold only workspaces."""
    state = find_last_state(ledger)
    if state is None:
        return {}
    owners: dict[int, set[Owner]] = defaultdict(set)
    for block in state.blocks:
        if block.pool == DEFAULT_POOL and block.bytes:
            owners[block.stream].add(block.owner)
    return {
        pool.stream: pool.bytes
        for pool in state.pools
        if pool.pool == DEFAULT_POOL and owners[pool.stream] == {Owner.UNOWNED}
    }


def _find_warm_up_streams(ledger: Ledger) -> Iterator[Saving]:
    sides = sum_side_streams(ledger)
    if len(sides) > 1:
        size = sum(sides.values()) - max(sides.values())
        yield Saving(SavingAction.WARM_UP_STREAM, size, 0, SavingBasis.PREDICTION)


def _find_order(run: Run, ledger: Ledger, graphs: Sequence[GraphLedger]) -> Iterator[Saving]:
    """Outputs of earlier graphs lie in blocks that the largest graph could have used.

    If it is captured first, they lie in its memory, or in one more segment of 20 MiB. The saving is
    at least a segment. It is at most all growth by earlier captures, if the largest graph reused no
    block of theirs.
    """
    if len(_list_streams(ledger)) > 1 or run.loop is None:
        return
    outputs = _list_outputs(run, ledger, find_workspace(ledger))
    pools: dict[tuple[int, int], list[GraphLedger]] = defaultdict(list)
    for graph in graphs:
        if graph.pool is not None:
            pools[graph.pool].append(graph)
    for members in pools.values():
        sizes = [outputs.get(graph.graph, 0) for graph in members]
        largest = max(range(len(members)), key=lambda number: sizes[number])
        followers = members[1 : largest + 1]
        if sum(max(graph.reserved_bytes or 0, 0) for graph in followers) < _SEGMENT:
            continue
        size = max(sum(sizes[:largest]) - _SEGMENT, _SEGMENT)
        growth = sum(max(graph.reserved_bytes or 0, 0) for graph in members[:largest])
        workspace = find_workspace(ledger)
        if (members[0].reserved_bytes or 0) >= workspace:
            growth -= workspace
        yield Saving(
            SavingAction.ORDER,
            size,
            0,
            SavingBasis.PREDICTION,
            tuple(graph.graph for graph in members),
            most_bytes=max(growth, size),
        )


_NOT_UPDATABLE: Final = frozenset(
    {NodeKind.MEM_ALLOC, NodeKind.MEM_FREE, NodeKind.CONDITIONAL, NodeKind.CHILD_GRAPH}
)


def find_twins(run: Run) -> tuple[tuple[str, ...], ...]:
    """Find graphs of equal topology, which one executable can serve in turn."""
    classes: dict[int, list[str]] = defaultdict(list)
    for graph in run.graphs:
        kinds = tuple(node.kind for node in graph.nodes)
        if graph.parent is None and kinds and not _NOT_UPDATABLE & set(kinds):
            edges = tuple(sorted((edge.source, edge.target) for edge in graph.edges))
            classes[hash((kinds, edges))].append(graph.id)
    return tuple(tuple(names) for names in classes.values() if len(names) > 1)


def _find_shared(run: Run, graphs: Sequence[GraphLedger]) -> Iterator[Saving]:
    """Graphs of equal topology need only the largest of their executables."""
    by_id = {graph.graph: graph for graph in graphs}
    estimates = estimate_executables(run, {graph.graph: graph.nodes or 0 for graph in graphs})
    size = 0.0
    time = 0
    groups: list[tuple[str, ...]] = []
    nodes = 0
    for twins in find_twins(run):
        members = [by_id[name] for name in twins if name in by_id]
        if len(members) < 2:
            continue
        sizes = [
            estimates[graph.graph] if graph.executable_bytes is None else graph.executable_bytes
            for graph in members
        ]
        times = [graph.driver_ns or 0 for graph in members]
        size += sum(sizes) - max(sizes)
        time += sum(times) - max(times)
        groups.append(tuple(graph.graph for graph in members))
        nodes = max(nodes, *(graph.nodes or 0 for graph in members))
    if groups:
        yield Saving(
            SavingAction.SHARE,
            # The remaining executables need a part of a chunk.
            int(size) // DRIVER_CHUNK * DRIVER_CHUNK,
            time,
            SavingBasis.PREDICTION,
            tuple(name for group in groups for name in group),
            nodes * SWITCH_NS_PER_NODE,
            groups=tuple(groups),
        )


def _find_collections(ledger: Ledger) -> Iterator[Saving]:
    captures = [span for span in ledger.spans if span.kind is SpanKind.CAPTURE]
    if not captures:
        return
    end = max(span.end_ns for span in captures)
    runs = [span for span in ledger.spans if span.kind is SpanKind.GC and span.end_ns <= end]
    first = min(span.start_ns for span in captures)
    # A program that collects before each capture also does so before the first one.
    begin = first - _COLLECTION_GAP_NS
    times = [span.end_ns - span.start_ns for span in runs if span.end_ns >= begin]
    if times:
        yield Saving(SavingAction.FREEZE, 0, sum(times) - max(times), SavingBasis.MEASUREMENT)


def _find_loading(ledger: Ledger, memory: MemoryLedger, startup: StartupLedger) -> Iterator[Saving]:
    """Eager loading costs time in proportion to the bytes, as in this program's context."""
    if ledger.module_loading != "eager":
        return
    parts = memory.end_of_startup.parts
    context = parts.get(LedgerPart.CONTEXT, 0)
    size = context + parts.get(LedgerPart.KERNELS, 0) - LAZY_OUTSIDE_BYTES
    eager_bytes = context - LAZY_CONTEXT_BYTES
    eager_ns = startup.parts.get(TimePart.CONTEXT, 0) - LAZY_CONTEXT_NS
    time = 0
    if eager_bytes > 0 and eager_ns > 0:
        time = round(max(size, 0) * eager_ns / eager_bytes)
    yield Saving(SavingAction.LAZY_LOADING, size, time, SavingBasis.PREDICTION)


def _find_expandable(ledger: Ledger) -> Iterator[Saving]:
    size = ledger.expandable_saving_bytes
    if size is not None:
        yield Saving(SavingAction.EXPANDABLE, size, 0, SavingBasis.PREDICTION)
