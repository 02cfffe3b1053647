"""Lines of kernels and repeated recorded graphs."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from graphviz_dash.analysis.nodes.whole_graph import expand_graph
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.graph import KernelParams, NodeKind
from tests.builders import Work, chain, make_run

ROOT = Path(__file__).parents[1]


def make_graphs(folder: Path, shape: str, count: int) -> None:
    """Write runs "graph" and "other" of about ``count`` nodes each.

    Args:
        shape: "line", or the name of a sample.
    """
    work = chain(count) if shape == "line" else repeated(shape, count)
    for name in ("graph", "other"):
        make_run(folder, "graph", name=name, work=work, workload=folder.name)


def repeated(sample: str, count: int) -> tuple[Work, ...]:
    """Repeat a sample's nodes with their dependencies, operators, modules and median times until
    there are ``count``. Each copy waits for the previous one."""
    table = expand_graph(load_run(ROOT / "sample_traces" / sample / "graph"), "graph-0").table
    before: list[list[int]] = [[] for _ in table.rows]
    for edge in table.graph.edges:
        before[edge.target].append(edge.source)
    sources = {edge.source for edge in table.graph.edges}
    ends = [index for index in range(len(table.rows)) if index not in sources]
    first_nodes = []
    for row in table.rows:
        params = row.node.params
        first_nodes.append(
            Work(
                row.node.label,
                int(row.times.median_ns or 1_000),
                row.origin.op or "none",
                row.origin.source or "model.py:1",
                grid=params.grid if isinstance(params, KernelParams) else (1, 1, 1),
                block=params.block if isinstance(params, KernelParams) else (1, 1, 1),
                module=row.origin.module,
                phase=row.origin.phase,
                kind=NodeKind.KERNEL,
            )
        )
    works: list[Work] = []
    while len(works) < count:
        first = len(works)
        for index, one in enumerate(first_nodes):
            after = [first + other for other in before[index]]
            if not after and first:
                after = [first - len(first_nodes) + end for end in ends]
            works.append(replace(one, after=tuple(after)))
    return tuple(works)
