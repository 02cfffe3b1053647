"""Nodes of a graph grouped by launching source line."""

from __future__ import annotations

from collections import Counter, defaultdict

from msgspec import Struct

from graphviz_dash.analysis.nodes.node_table import NodeRow, NodeTable
from graphviz_dash.model.source_code import SourceCode

_MAX_OPERATORS = 4


class LineShare(Struct, frozen=True):
    """Share of a graph that comes from one source line."""

    source: str
    """"file:line"."""
    code: str | None
    """Code of the line; None if unknown."""
    nodes: int
    work_ns: float | None
    """Sum of medians, in ns; None if none was timed."""
    share: float | None
    """Share of all nodes' medians, 0 to 1; None if ``work_ns`` is None."""
    operators: tuple[str, ...]
    """Operators, most frequent first."""


def list_source_lines(
    table: NodeTable, source_code: SourceCode | None = None
) -> tuple[LineShare, ...]:
    """Group the nodes by source line, most GPU time first."""
    code = {} if source_code is None else source_code.lines
    by_line: defaultdict[str, list[NodeRow]] = defaultdict(list)
    total = 0.0
    for row in table.rows:
        total += row.times.median_ns or 0.0
        if row.origin.source is not None:
            by_line[row.origin.source].append(row)
    shares = []
    for source, rows in by_line.items():
        medians = [row.times.median_ns for row in rows if row.times.median_ns is not None]
        work = sum(medians) if medians else None
        share = None if work is None else work / total if total else 0.0
        operator_counts = Counter(row.origin.op for row in rows if row.origin.op is not None)
        operators = tuple(op for op, _ in operator_counts.most_common(_MAX_OPERATORS))
        shares.append(LineShare(source, code.get(source), len(rows), work, share, operators))
    return tuple(sorted(shares, key=lambda line: (-(line.work_ns or 0.0), line.source)))
