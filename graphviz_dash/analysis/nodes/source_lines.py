"""The nodes of a graph by the source line that launched them."""

from __future__ import annotations

from collections import Counter, defaultdict

from msgspec import Struct

from graphviz_dash.analysis.nodes.node_table import NodeRow
from graphviz_dash.analysis.nodes.whole_graph import WholeGraph

_MOST_OPERATORS = 4


class LineShare(Struct, frozen=True):
    """What of a graph comes from one source line."""

    source: str
    """"file:line"."""
    nodes: int
    """How many nodes come from it."""
    work_ns: float | None
    """Sum of the medians of these nodes, in ns; None where none of them was timed."""
    share: float | None
    """Its share of the medians of all nodes, 0 to 1; None as ``work_ns``."""
    operators: tuple[str, ...]
    """Its operators, most frequent first."""


def source_lines(whole: WholeGraph) -> tuple[LineShare, ...]:
    """The lines that nodes of ``whole`` come from, those with most GPU time first."""
    by_line: defaultdict[str, list[NodeRow]] = defaultdict(list)
    total = 0.0
    for row in whole.table.rows:
        total += row.times.median_ns or 0.0
        if row.origin.source is not None:
            by_line[row.origin.source].append(row)
    shares = []
    for source, rows in by_line.items():
        medians = [row.times.median_ns for row in rows if row.times.median_ns is not None]
        work = sum(medians) if medians else None
        share = None if work is None else work / total if total else 0.0
        often = Counter(row.origin.op for row in rows if row.origin.op is not None)
        operators = tuple(op for op, _ in often.most_common(_MOST_OPERATORS))
        shares.append(LineShare(source, len(rows), work, share, operators))
    return tuple(sorted(shares, key=lambda line: (-(line.work_ns or 0.0), line.source)))
