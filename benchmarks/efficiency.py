"""Time of the comparison of a graph with the limits of the GPU, by number of nodes.

    python benchmarks/efficiency.py [--nodes 1000 3000 10000] [--repeats 5]

Repeats the nodes of the sample ``transformer-train`` and gives each the memory of its neighbours.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

import msgspec

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
from graphviz_dash.features.efficiency.analysis.report import (  # noqa: E402
    GroupKey,
    group_limits,
    measure_items,
)
from graphviz_dash.features.efficiency.analysis.units import compute_call_work  # noqa: E402
from graphviz_dash.ingest.load import load_run  # noqa: E402
from graphviz_dash.model.absence import Missing  # noqa: E402
from graphviz_dash.model.graph import Operand  # noqa: E402

_BYTES = 1 << 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[1_000, 3_000, 10_000])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    run = load_run(ROOT / "sample_traces" / "transformer-train" / "graph")
    sample = list_graph_items(expand_graph(run, run.graphs[0].id))
    choice = CeilingsChoice(load_shipped_ceilings()[0], CeilingsOrigin.SAME_MODEL)
    print("nodes     median   longest")
    for count in options.nodes:
        items = repeat_items(sample, count)
        times = []
        for _ in range(options.repeats):
            compute_call_work.cache_clear()
            begin = time.perf_counter()
            report = measure_items(items, choice)
            assert not isinstance(report, Missing)
            for key in GroupKey:
                group_limits(report, key)
            times.append(time.perf_counter() - begin)
        print(f"{count:7,} {statistics.median(times):7.3f} s {max(times):7.3f} s")


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
