"""How long the questions behind a page take on ten million mixed events.

    python benchmarks/queries.py [--events 10000000] [--trace PATH] [--repeats 5]

Repeats the tables of a real trace until they have this many rows. Prints the median, the maximum
and the CPU time of each question.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from msgspec.structs import replace

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from graphviz_dash.analysis.arrays import get_column  # noqa: E402
from graphviz_dash.analysis.metrics.kernel_table import compute_kernel_uses  # noqa: E402
from graphviz_dash.analysis.trace.cpu_time import compute_self_cpu_ns  # noqa: E402
from graphviz_dash.analysis.trace.lanes import (  # noqa: E402
    Links,
    build_trace_lanes,
    find_idle_periods,
    link_trace_launches,
    merge_busy,
)
from graphviz_dash.analysis.trace.steps import find_steps  # noqa: E402
from graphviz_dash.ingest.kineto.columns import SCHEMAS  # noqa: E402
from graphviz_dash.ingest.kineto.reader import read_trace  # noqa: E402
from graphviz_dash.model.trace import Trace  # noqa: E402

SAMPLE: Final = ROOT / "sample_traces/mlp-train/eager/traces/replay.json.gz"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--trace", type=Path, default=SAMPLE)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    trace = repeated(read_trace(options.trace), options.events)
    counts = {name: getattr(trace, name).height for name in SCHEMAS}
    print(f"{sum(counts.values()):,} rows: {counts}")
    print("| question | median | longest | CPU |")
    print("| --- | --- | --- | --- |")
    for label, ask in questions(trace):
        walls, used = [], []
        for _ in range(options.repeats):
            start_time, cpu = time.perf_counter(), time.process_time()
            ask()
            walls.append((time.perf_counter() - start_time) * 1000)
            used.append((time.process_time() - cpu) * 1000)
        median, max_ms = statistics.median(walls), max(walls)
        print(f"| {label} | {median:.0f} ms | {max_ms:.0f} ms | {statistics.median(used):.0f} ms |")


def questions(trace: Trace) -> list[tuple[str, Callable[[], object]]]:
    """Questions of pages, with their inputs prepared."""
    gpu = trace.gpu
    links = link_trace_launches(trace)
    steps_read = find_steps(trace, links)
    lanes = build_trace_lanes(trace)
    device, start = get_column(gpu, "device"), get_column(gpu, "ts")
    end = start + get_column(gpu, "dur")
    return [
        ("which call launched which work", lambda: link_trace_launches(trace)),
        ("the steps, and the work of each", lambda: find_steps(trace, links)),
        (
            "kernels by name, with median and spread over steps",
            lambda: compute_kernel_uses(trace, steps_read),
        ),
        (
            "delay from call to work by call, median and 95th percentile",
            lambda: _delays(trace, links),
        ),
        ("when each GPU was busy", lambda: merge_busy(device, start, end)),
        (
            "the longest pauses of a GPU",
            lambda: find_idle_periods(lanes.device, 0, 0, int(end.max()), 100_000),
        ),
        ("the steps' own processor time", lambda: compute_self_cpu_ns(trace, steps_read)),
        ("the largest kernels", lambda: gpu.top_k(20, by="dur")),
    ]


def _delays(trace: Trace, links: Links) -> pl.DataFrame:
    linked_rows = np.flatnonzero(links.launch >= 0)
    call = links.launch[linked_rows]
    delay = get_column(trace.gpu, "ts")[linked_rows] - get_column(trace.runtime, "ts")[call]
    frame = pl.DataFrame({"call": trace.runtime["name"].gather(call), "delay": delay})
    return frame.group_by("call").agg(
        median=pl.col("delay").median(), p95=pl.col("delay").quantile(0.95)
    )


def repeated(trace: Trace, rows: int) -> Trace:
    """Repeat ``trace`` until its tables have ``rows`` rows in total."""
    height = sum(getattr(trace, name).height for name in SCHEMAS)
    copies = max(1, -(-rows // height))
    period = trace.info.end_ns + 1_000
    ids = 1 + max(
        int(trace.gpu["correlation"].max() or 0), int(trace.runtime["correlation"].max() or 0)
    )

    def again(table: pl.DataFrame, copy: int) -> pl.DataFrame:
        shifted_columns = [pl.col("ts") + copy * period]
        if "correlation" in table.columns:
            shifted_columns.append(pl.col("correlation") + copy * ids)
        return table.with_columns(shifted_columns)

    tables = {
        name: pl.concat([again(getattr(trace, name), copy) for copy in range(copies)]).rechunk()
        for name in SCHEMAS
    }
    end = trace.info.end_ns + (copies - 1) * period
    return dataclasses.replace(trace, info=replace(trace.info, end_ns=end), offsets=None, **tables)


if __name__ == "__main__":
    main()
