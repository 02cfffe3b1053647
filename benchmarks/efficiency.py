"""Time of the comparison of a graph with the limits of the GPU, by number of nodes.

    python benchmarks/efficiency.py [--nodes 1000 3000 10000] [--repeats 5]

Repeats the nodes of the sample ``transformer-train``. *analysis*: nodes with times and operators,
each with the memory of its neighbours. *all*: matching the replays, expanding the graph and
measuring its gaps too, from a loaded run; the repeated nodes have no operators, so the sum of both
is an upper limit. CPU time, because the machine may be busy.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import polars as pl

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from graphviz_dash.analysis.nodes.whole_graph import expand_graph  # noqa: E402
from graphviz_dash.features.efficiency.analysis.ceilings_choice import (  # noqa: E402
    CeilingsChoice,
    CeilingsOrigin,
    load_shipped_ceilings,
)
from graphviz_dash.features.efficiency.analysis.items import (  # noqa: E402
    WorkItem,
    list_graph_items,
)
from graphviz_dash.features.efficiency.analysis.operator_call import parse_call  # noqa: E402
from graphviz_dash.features.efficiency.analysis.report import (  # noqa: E402
    EfficiencyReport,
    GroupKey,
    group_limits,
    measure_items,
    measure_run_efficiency,
)
from graphviz_dash.features.efficiency.analysis.units import compute_call_work  # noqa: E402
from graphviz_dash.ingest.load import load_run  # noqa: E402
from graphviz_dash.model.absence import Missing  # noqa: E402
from graphviz_dash.model.graph import Operand  # noqa: E402
from graphviz_dash.model.run import Run  # noqa: E402

_BYTES = 1 << 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[1_000, 3_000, 10_000])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    run = load_run(ROOT / "sample_traces" / "transformer-train" / "graph")
    sample = list_graph_items(expand_graph(run, run.graphs[0].id))
    choice = CeilingsChoice(load_shipped_ceilings()[0], CeilingsOrigin.SAME_MODEL)
    print("  nodes  analysis  longest       all  longest")
    for count in options.nodes:
        items = repeat_items(sample, count)
        large = repeat_graph(run, -(-count // len(run.graphs[0].nodes)))
        parts = [
            time_calls(lambda items=items: measure_items(items, choice), options.repeats),
            time_calls(
                lambda large=large: measure_run_efficiency(
                    large(), ceilings_override=choice.ceilings
                ),
                options.repeats,
            ),
        ]
        texts = [f"{statistics.median(times):8.3f} s {max(times):6.3f} s" for times in parts]
        print(f"{count:7,}", *texts)


def time_calls(measure: Callable[[], EfficiencyReport | Missing], repeats: int) -> list[float]:
    """Measure CPU time in seconds, without results of earlier calls."""
    times = []
    for _ in range(repeats):
        compute_call_work.cache_clear()
        parse_call.cache_clear()
        begin = time.process_time()
        report = measure()
        assert not isinstance(report, Missing)
        for key in GroupKey:
            group_limits(report, key)
        times.append(time.process_time() - begin)
    return times


def repeat_graph(run: Run, copies: int) -> Callable[[], Run]:
    """Return a function that builds the run with its graph and each replay repeated."""
    (graph,) = run.graphs
    count = len(graph.nodes)
    assert run.replay_trace is not None
    nodes = tuple(
        msgspec.structs.replace(node, index=node.index + turn * count)
        for turn in range(copies)
        for node in graph.nodes
    )
    edges = tuple(
        msgspec.structs.replace(
            edge, source=edge.source + turn * count, target=edge.target + turn * count
        )
        for turn in range(copies)
        for edge in graph.edges
    ) + tuple(
        msgspec.structs.replace(graph.edges[0], source=turn * count - 1, target=turn * count)
        for turn in range(1, copies)
    )
    begin = pl.col("ts").min().over("correlation")
    length = (pl.col("ts") + pl.col("dur")).max().over("correlation") - begin + 200
    is_replay = pl.len().over("correlation") == count
    gpu = run.replay_trace.gpu
    frames = [
        gpu.with_columns(
            ts=pl.when(is_replay)
            .then(begin * copies + (pl.col("ts") - begin) + length * turn)
            .otherwise(pl.col("ts") * copies)
        ).filter(is_replay | (turn == 0))
        for turn in range(copies)
    ]
    traces = {
        name: getattr(run.replay_trace, name).with_columns(pl.col("ts", "dur") * copies)
        for name in ("runtime", "annotations")
    }
    trace = dataclasses.replace(run.replay_trace, gpu=pl.concat(frames).sort("ts"), **traces)
    large = msgspec.structs.replace(graph, nodes=nodes, edges=edges)
    # A new run each time, because results are kept with it.
    return lambda: msgspec.structs.replace(run, graphs=(large,), replay_trace=trace)


def repeat_items(sample: tuple[WorkItem, ...], count: int) -> tuple[WorkItem, ...]:
    """Repeat the items of a sample, with operands that chain each to the next one."""
    items = []
    for index in range(count):
        turn, position = divmod(index, len(sample))
        item = sample[position]
        origin = item.origin
        if origin is not None and origin.call is not None:
            origin = msgspec.structs.replace(origin, call=origin.call + turn * 1_000_000)
        operands = tuple(Operand(0, (index + side) * _BYTES, _BYTES) for side in range(2))
        items.append(msgspec.structs.replace(item, index=index, origin=origin, operands=operands))
    return tuple(items)


if __name__ == "__main__":
    main()
