"""Find operators that a graph runs with slower kernels than the eager run.

Libraries choose kernels by heuristics, trials, or workspace, and may choose differently in a
capture. Both times are measured, so no limits of the GPU are needed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Final

from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph
from graphviz_dash.analysis.step_comparison.typical_step import WorkItem as StepItem
from graphviz_dash.analysis.step_comparison.work_pairs import PairKind, PairRow, WorkPairs
from graphviz_dash.features.efficiency.analysis.items import WorkItem
from graphviz_dash.features.efficiency.analysis.limits import UnitLimit
from graphviz_dash.features.efficiency.analysis.rules.search import AdviceGroup, Remedy

NOISE: Final = 0.1
"""Insignificant relative difference of one kernel's time between steps."""


def find_eager_choices(
    items: Sequence[WorkItem],
    limits: Sequence[UnitLimit],
    graph: ExpandedGraph,
    pairs: WorkPairs,
) -> Iterator[AdviceGroup]:
    """Find calls with other, faster eager kernels.

    Operators may be split differently in both runs, so calls with common work are compared as one.
    """
    owners = {
        graph.owners[items[position].index]: index
        for index, limit in enumerate(limits)
        for position in limit.unit.items
    }
    rows = list(_select_rows(pairs, owners))
    eager_ns: defaultdict[Hashable, int] = defaultdict(int)
    eager_calls = list_eager_calls(pairs.before.items)
    for call, duration in zip(eager_calls, pairs.before.duration.tolist(), strict=True):
        eager_ns[call] += duration
    for calls, indices, differs in _group_calls(rows, eager_calls):
        before = sum(eager_ns[call] for call in calls)
        after = sum(limits[index].time_ns for index in indices)
        if differs and after > before * (1 + NOISE):
            low = max(0.0, after * (1 - NOISE) - before * (1 + NOISE))
            high = after * (1 + NOISE) - before * (1 - NOISE)
            yield AdviceGroup(Remedy.KERNEL, tuple(indices), (low, after - before, high))


def _select_rows(
    pairs: WorkPairs, owners: Mapping[tuple[str, int], int]
) -> Iterator[tuple[PairRow, list[int]]]:
    """Select rows with work of both steps, and the calls of their nodes; only each node's first
    launch."""
    used_nodes: set[tuple[str, int]] = set()
    for row in pairs.rows:
        nodes = [
            (item.graph, item.node)
            for item in (pairs.after.items[number] for number in row.after)
            if item.graph is not None and item.node is not None
        ]
        if not row.before or used_nodes.intersection(nodes):
            continue
        used_nodes.update(nodes)
        indices = [owners[node] for node in nodes if node in owners]
        if indices:
            yield row, indices


def _group_calls(
    rows: Sequence[tuple[PairRow, list[int]]], eager_calls: Sequence[Hashable]
) -> Iterator[tuple[set[Hashable], list[int], bool]]:
    """Group calls with a common row: eager calls, calls of the graph, and whether a kernel
    differs."""
    neighbours: defaultdict[Hashable, list[int]] = defaultdict(list)
    by_index: defaultdict[int, list[int]] = defaultdict(list)
    for number, (row, indices) in enumerate(rows):
        for item in row.before:
            neighbours[eager_calls[item]].append(number)
        for index in indices:
            by_index[index].append(number)
    visits: set[int] = set()
    for first in range(len(rows)):
        if first in visits:
            continue
        pending, calls, members, differs = [first], set[Hashable](), set[int](), False
        while pending:
            number = pending.pop()
            if number in visits:
                continue
            visits.add(number)
            row, indices = rows[number]
            differs |= row.kind is PairKind.OTHER
            row_calls = {eager_calls[item] for item in row.before}
            calls |= row_calls
            members.update(indices)
            pending += [other for call in row_calls for other in neighbours[call]]
            pending += [other for index in indices for other in by_index[index]]
        yield calls, sorted(members), differs


def list_eager_calls(items: Sequence[StepItem]) -> list[Hashable]:
    """Return the call of each kernel.

    Without recorded shapes, consecutive kernels of one operator count as one call.
    """
    calls: list[Hashable] = []
    for number, item in enumerate(items):
        origin = item.origin
        if origin.call is not None:
            calls.append(origin.call)
        elif number and origin.op is not None and items[number - 1].origin.op == origin.op:
            calls.append(calls[-1])
        else:
            calls.append(("kernel", number))
    return calls
