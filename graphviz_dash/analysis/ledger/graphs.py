"""Memory and time that each graph adds, and that its removal returns."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from msgspec import Struct

from graphviz_dash.analysis.ledger.memory import compute_others_change
from graphviz_dash.analysis.memory.executables import (
    estimate_executables,
    find_capture_chunks,
    measure_growth,
)
from graphviz_dash.analysis.memory.report import compute_footprints
from graphviz_dash.model.ledger import SampleKind, SpanKind

if TYPE_CHECKING:
    from graphviz_dash.model.ledger import Ledger, LedgerSpan, MemorySample
    from graphviz_dash.model.run import Run


class GraphLedger(Struct, frozen=True):
    """Memory and time of one graph. Bytes, and ns of CPU time. None if not recorded."""

    graph: str
    nodes: int | None
    pool: tuple[int, int] | None
    reserved_bytes: int | None
    """Growth of the allocator's reserved memory by its capture, in its pool and outside."""
    pool_growth_bytes: int | None
    """Growth of its pool since the end of the previous capture into it."""
    kernel_bytes: int | None
    """Kernels and libraries that its capture loaded, without chunks for executables."""
    executable_bytes: int | None
    """Its share of the growth by all executables, by estimates from nodes."""
    warm_up_bytes: int | None
    """Growth of used memory since the previous capture."""
    host_bytes: int | None
    """Growth of resident host memory by capture and instantiation."""
    exclusive_bytes: int | None
    """Pool memory that no other graph uses."""
    shared_bytes: int | None
    """Pool memory that other graphs use too."""
    shared_with: tuple[str, ...]
    held_bytes: int | None
    """Memory freed in its capture that other streams used (``record_stream``), so that the capture
    cannot reuse it.
    """
    failure: bool
    returned_bytes: int | None
    """Memory returned when it was dropped, after all later captures."""
    capture_ns: int | None
    """Duration of the capture, without the recorder's work."""
    driver_ns: int | None
    """Duration of the call that ends the capture, or of the separate instantiation."""
    collection_ns: int
    """Garbage collection inside the capture."""
    first_launch_ns: int | None
    total_ns: int | None
    """From the end of the previous capture to the end of this one, without the recorder's work."""
    function: int | None = None
    """Number of the program's function that captured it, in order. None if unknown."""

    @property
    def added_bytes(self) -> int | None:
        """Device memory added by the capture."""
        parts = (self.reserved_bytes, self.kernel_bytes, self.executable_bytes)
        sizes = [part for part in parts if part is not None]
        return sum(sizes) if sizes else None


def build_graph_ledgers(run: Run) -> tuple[GraphLedger, ...]:
    """Build the ledger of each graph, in capture order; empty without a ledger."""
    ledger = run.ledger
    if ledger is None:
        return ()
    nodes = {graph.id: len(graph.nodes) for graph in run.graphs}
    # Growth outside the allocator may belong to another process.
    is_attributable = not compute_others_change(ledger)
    executables = (
        share_executables(ledger, estimate_executables(run, nodes)) if is_attributable else {}
    )
    chunks = find_capture_chunks(ledger)
    footprints = {
        footprint.graph: footprint
        for footprint in (compute_footprints(run.memory_pass) if run.memory_pass else ())
        if footprint.footprint
    }
    drops = compute_returned(ledger)
    begins = _index(ledger, SampleKind.CAPTURE_BEGIN)
    bodies = _index(ledger, SampleKind.CAPTURE_END)
    ends = _index(ledger, SampleKind.INSTANTIATION)
    times = _sum_spans(ledger)
    functions = _number_functions(ledger)
    work = sorted(
        (span for span in ledger.spans if span.kind is SpanKind.RECORDER),
        key=attrgetter("start_ns"),
    )
    recorded_ns = (
        {}
        if run.recording is None
        else {item.graph: item.capture_ns for item in run.recording.graphs}
    )
    costs = {cost.graph: cost for cost in (run.loop.graphs if run.loop else ())}
    result = []
    previous: MemorySample | None = None
    for graph in ledger.graphs:
        begin, body, end = (samples.get(graph.graph) for samples in (begins, bodies, ends))
        footprint, cost = footprints.get(graph.graph), costs.get(graph.graph)
        durations = times[graph.graph]
        after_body = body or end
        result.append(
            GraphLedger(
                graph=graph.graph,
                nodes=nodes.get(graph.graph),
                pool=graph.pool,
                reserved_bytes=_subtract(begin, end, "reserved_bytes"),
                pool_growth_bytes=cost.pool_growth_bytes if cost else None,
                kernel_bytes=(
                    _subtract(begin, after_body, "outside_bytes", chunks.get(graph.graph, 0))
                    if is_attributable
                    else None
                ),
                executable_bytes=executables.get(graph.graph),
                warm_up_bytes=(
                    _subtract(previous, begin, "device_used_bytes") if is_attributable else None
                ),
                host_bytes=_subtract(begin, end, "host_bytes"),
                exclusive_bytes=footprint.exclusive if footprint else None,
                shared_bytes=footprint.shared if footprint else None,
                shared_with=footprint.shared_with if footprint else (),
                held_bytes=graph.held_bytes,
                failure=graph.failure,
                returned_bytes=drops.get(graph.graph),
                capture_ns=recorded_ns.get(graph.graph, _get_capture_time(durations)),
                driver_ns=durations.get(SpanKind.INSTANTIATE, durations.get(SpanKind.DRIVER)),
                collection_ns=durations.get(SpanKind.GC, 0),
                first_launch_ns=cost.first_launch_ns if cost else durations.get(SpanKind.LAUNCH),
                total_ns=_subtract_work(work, previous, end),
                function=functions.get(graph.graph),
            )
        )
        previous = end or previous
    return tuple(result)


def _number_functions(ledger: Ledger) -> dict[str, int]:
    """Number the functions that capture graphs, by graph. The innermost one counts."""
    functions = sorted(
        (span for span in ledger.spans if span.kind is SpanKind.CAPTURES),
        key=attrgetter("start_ns"),
    )
    return {
        capture.name: number
        for number, function in enumerate(functions)
        for capture in ledger.spans
        if capture.kind is SpanKind.CAPTURE
        and capture.thread == function.thread
        and function.start_ns <= capture.start_ns
        and capture.end_ns <= function.end_ns
    }


def _index(ledger: Ledger, kind: SampleKind) -> dict[str, MemorySample]:
    return {s.name: s for s in ledger.samples if s.kind is kind and s.name is not None}


def _subtract(
    begin: MemorySample | None, end: MemorySample | None, field: str, other_bytes: int = 0
) -> int | None:
    if begin is None or end is None:
        return None
    return int(getattr(end, field)) - int(getattr(begin, field)) - other_bytes


def _subtract_work(
    work: Sequence[LedgerSpan], begin: MemorySample | None, end: MemorySample | None
) -> int | None:
    """Return the time between two samples without ``work``, spans in order."""
    if begin is None or end is None:
        return None
    first = bisect_left(work, begin.time_ns, key=attrgetter("start_ns"))
    after = bisect_left(work, end.time_ns, key=attrgetter("start_ns"))
    duration = end.time_ns - begin.time_ns
    return max(duration - sum(span.end_ns - span.start_ns for span in work[first:after]), 0)


def _get_capture_time(durations: Mapping[SpanKind, int]) -> int | None:
    capture = durations.get(SpanKind.CAPTURE)
    return None if capture is None else capture - durations.get(SpanKind.RECORDER, 0)


def _sum_spans(ledger: Ledger) -> dict[str, dict[SpanKind, int]]:
    """Sum the activities of each graph, including garbage collections and the recorder's work."""
    times: dict[str, dict[SpanKind, int]] = defaultdict(lambda: defaultdict(int))
    captures = [span for span in ledger.spans if span.kind is SpanKind.CAPTURE]
    names = {graph.graph for graph in ledger.graphs}
    for span in ledger.spans:
        if span.name in names:
            times[span.name][span.kind] += span.end_ns - span.start_ns
        elif span.kind in (SpanKind.GC, SpanKind.RECORDER):
            for capture in captures:
                if capture.start_ns <= span.start_ns and span.end_ns <= capture.end_ns:
                    times[capture.name][span.kind] += span.end_ns - span.start_ns
    return times


def share_executables(ledger: Ledger, estimates: Mapping[str, float]) -> dict[str, int]:
    """Share the growth by all executables among the graphs by estimates; the sum stays exact.

    A single growth says little, because the driver allocates chunks of MiB.
    """
    growth = measure_growth(ledger)
    weights = {graph: round(estimates.get(graph, 0)) for graph in growth}
    shares = {graph: weight for graph, weight in weights.items() if weight}
    return divide(max(sum(growth.values()), 0), shares)


def divide(total: int, weights: Mapping[str, int]) -> dict[str, int]:
    """Divide ``total`` in proportion to ``weights`` into integers that add up to it."""
    weight_sum = sum(weights.values())
    if not weight_sum:
        return {}
    shares: dict[str, int] = {}
    share_sum = partial_sum = 0
    for name, weight in weights.items():
        partial_sum += weight
        shares[name] = total * partial_sum // weight_sum - share_sum
        share_sum += shares[name]
    return shares


def compute_returned(ledger: Ledger) -> dict[str, int]:
    """Return the decrease of used device memory when each graph was dropped, in bytes."""
    decrease: dict[str, int] = {}
    before: MemorySample | None = None
    for sample in ledger.samples:
        if sample.kind is SampleKind.GRAPH_DROP and sample.name is not None and before is not None:
            decrease[sample.name] = before.device_used_bytes - sample.device_used_bytes
        before = sample
    return decrease
