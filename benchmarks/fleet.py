"""How long a fleet of traces takes: a thousand ranks generated, summarised and asked.

    python -m benchmarks.fleet FOLDER --ranks 1000 --workers 2

Each rank is a trace of 20 steps of a data-parallel training step replayed from a graph: 48 kernels
and an all-reduce, with operators and API calls as torch.profiler writes them. One rank in a hundred
computes 20% longer, which makes all others wait in their all-reduce; one replays a graph with a
kernel more; one launches from the CPU kernel by kernel. Prints what each part took and what the
fleet says.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import time
from functools import partial
from pathlib import Path

from graphviz_dash.features.ranks.fleet_import import collect_fleet, compute_answers, write_fleet
from graphviz_dash.importers.locations import find_locations
from graphviz_dash.importers.tasks import create_executor

STEPS = 20
KERNELS = 48
STEP_NS = 2_000_000
SLOW_EVERY = 100
ODD_RANK = 17
LAUNCHING_RANK = 23


def rank_trace(rank: int, world: int) -> bytes:
    noise = random.Random(rank)
    slow = rank % SLOW_EVERY == SLOW_EVERY - 1
    head = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "NVIDIA H200"}],
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world},
        "baseTimeNanoseconds": 1_790_000_000_000_000_000,
    }
    events = []

    def add(cat: str, name: str, ts: int, dur: int, tid: int, **args: object) -> None:
        events.append(
            f'{{"ph": "X", "cat": "{cat}", "name": "{name}", "pid": 1, "tid": {tid}, '
            f'"ts": {ts // 1000}.{ts % 1000:03d}, "dur": {dur // 1000}.{dur % 1000:03d}, '
            f'"args": {json.dumps(args)}}}'
        )

    correlation = 0
    for step in range(STEPS):
        begin = step * STEP_NS
        add("user_annotation", f"ProfilerStep#{step}", begin, STEP_NS - 1_000, 10)
        eager = rank == LAUNCHING_RANK
        at = begin + 20_000
        correlation += 1
        if not eager:
            add("cuda_runtime", "cudaGraphLaunch", at - 15_000, 9_000, 10, correlation=correlation)
        for kernel in range(KERNELS + (rank == ODD_RANK)):
            duration = 20_000 + noise.randrange(400)
            duration += 4_000 if slow and kernel == 5 else 0
            duration += 200_000 if slow and kernel == 6 else 0
            if eager:
                correlation += 1
                call = at + 4_000
                add("cpu_op", f"aten::op{kernel}", call - 3_000, 9_000, 10)
                add("cuda_runtime", "cudaLaunchKernel", call, 5_000, 10, correlation=correlation)
                at = call + 7_000
            add(
                *("kernel", f"layer{kernel % 12}_kernel{kernel // 12}", at, duration, 7),
                **{"device": 0, "stream": 7, "correlation": correlation},
                **{"grid": [64, 1, 1], "block": [128, 1, 1]},
            )
            at += duration + 300
        # Ranks leave a collective together.
        left = begin + 1_900_000
        add(
            *("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", at, max(left - at, 5_000), 7),
            **{"device": 0, "stream": 7, "correlation": correlation},
            **{"grid": [16, 1, 1], "block": [512, 1, 1]},
        )
    body = json.dumps(head)[:-1] + ', "traceEvents": [\n' + ",\n".join(events) + "\n]}\n"
    return gzip.compress(body.encode(), 1)


def generate(folder: Path, ranks: int) -> int:
    """Writes the traces; returns their bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    total = 0
    for rank in range(ranks):
        content = rank_trace(rank, ranks)
        total += len(content)
        (folder / f"rank{rank}.json.gz").write_bytes(content)
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ranks", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--scheduler")
    options = parser.parse_args()
    traces = options.folder / "traces"
    if not traces.exists():
        size = generate(traces, options.ranks)
        print(f"{options.ranks:,} traces, {size / 1e6:.1f} MB")
    start_time = time.perf_counter()
    locations = find_locations([str(traces)])
    fleet = collect_fleet(locations, partial(create_executor, options.scheduler, options.workers))
    read = time.perf_counter() - start_time
    write_fleet(fleet, options.folder / "tables")
    size = sum(file.stat().st_size for file in (options.folder / "tables").glob("*.parquet"))
    start_time = time.perf_counter()
    (findings,) = compute_answers(fleet)
    query_s = time.perf_counter() - start_time
    events = int(fleet.tables["ranks"]["events"].sum())
    print(
        f"{findings.ranks:,} ranks, {events:,} events: {read:.2f} s, "
        f"{read / max(findings.ranks, 1) * 1e3:.2f} ms a rank with {options.workers} workers"
    )
    print(f"tables: {size / 1e6:.2f} MB; three questions: {query_s * 1e3:.1f} ms")
    print(f"slow: {[one.rank for one in findings.slow]}")
    print(f"odd graphs: {[(one.kernels, one.ranks) for one in findings.divergent][:4]}")
    print(f"launch-bound: {findings.launch_bound}, worst {findings.launch_bound_worst}")
    print(f"not read: {len(fleet.failed)}")


if __name__ == "__main__":
    main()
