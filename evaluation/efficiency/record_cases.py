"""Record cases of advice on a GPU, for :mod:`evaluation.efficiency.score`.

    python -m evaluation.efficiency.record_cases OUT [--seconds N] [--cases NAME ...]

Measures the limits of the GPU. Then traces an eager step of each case before its change, or records
its graph, and times the captured step before and after the change.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any, Final

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from collectors.ceilings.store import measure_in_process
from collectors.passes.kernel_parameters import name_parameters
from evaluation.efficiency.cases import CASES, DEVICE, Case, Step, build_products
from graphviz_dash.bundle.ceilings import write_ceilings

WARMUP_STEPS: Final = 3
TRACED_STEPS: Final = 2
ROUNDS: Final = 15
REPLAYS: Final = 10
"""Replays in a row between two events, so that the launch of an idle GPU hides nothing."""
_RECORD: Final = (
    *("--modes", "graph", "--no-limits", "--processes", "1", "--warmup", "3"),
    *("--iterations", "20", "--traced-iterations", "5"),
)


def trace_step(step: Step, file: Path) -> None:
    for _ in range(WARMUP_STEPS):
        step()
    torch.cuda.synchronize()
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True
    ) as session:
        for number in range(TRACED_STEPS):
            with record_function(f"ProfilerStep#{number}"):
                step()
                torch.cuda.synchronize()
    plain = file.with_suffix("")
    session.export_chrome_trace(str(plain))
    content = json.loads(plain.read_bytes())
    content["traceEvents"] = [
        json.loads(name_parameters(json.dumps(event).encode())) for event in content["traceEvents"]
    ]
    file.write_bytes(gzip.compress(json.dumps(content).encode(), 6))
    plain.unlink()


def capture_step(step: Step) -> torch.cuda.CUDAGraph:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph


def time_graph(graph: torch.cuda.CUDAGraph) -> float:
    """Return the median replay time in us."""
    times = []
    for _ in range(ROUNDS):
        graph.replay()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(REPLAYS):
            graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / REPLAYS)
    return median(times)


def count_kernels(graph: torch.cuda.CUDAGraph) -> int:
    """Count the kernels, copies and memsets of a replay."""
    with profile(activities=[ProfilerActivity.CUDA]) as session:
        graph.replay()
        torch.cuda.synchronize()
    events = session.profiler.kineto_results.events()  # type: ignore[union-attr]
    return sum(event.device_type() == torch.autograd.DeviceType.CUDA for event in events)


def record_case(case: Case, folder: Path) -> dict[str, Any]:
    torch.manual_seed(0)
    plain = case.plain()
    if case.graph:
        workload = f"evaluation.efficiency.cases:{case.plain.__name__}"
        command = [sys.executable, "-m", "collectors", "--workload", workload, *_RECORD]
        subprocess.run([*command, "-o", str(folder / f"case-{case.name}")], check=True)
    else:
        trace_step(plain, folder / f"case-{case.name}.json.gz")
    before = capture_step(plain)
    after = capture_step(case.variant())
    # Interleaved, because clocks change.
    rounds = [(time_graph(before), time_graph(after)) for _ in range(3)]
    return {
        "case": case.name,
        "plain_us": round(median(entry[0] for entry in rounds), 2),
        "changed_us": round(median(entry[1] for entry in rounds), 2),
        "plain_kernels": count_kernels(before),
        "changed_kernels": count_kernels(after),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--cases", nargs="+", default=[case.name for case in CASES])
    options = parser.parse_args()
    begin = time.monotonic()
    options.out.mkdir(parents=True, exist_ok=True)
    write_ceilings(options.out / "ceilings.json", measure_in_process())
    torch.zeros(1, device=DEVICE)
    with (options.out / "cases.jsonl").open("w") as lines:
        for case in CASES:
            if case.name not in options.cases:
                continue
            if time.monotonic() - begin > options.seconds - 20:
                print("skipped", case.name, flush=True)
                continue
            start = time.monotonic()
            try:
                row = record_case(case, options.out)
            except Exception as error:  # the other cases must still run
                print("failed", case.name, repr(error)[:500], flush=True)
                continue
            finally:
                torch.backends.cuda.matmul.allow_tf32 = False
                torch.backends.cudnn.allow_tf32 = True
                gc.collect()
                torch.cuda.empty_cache()
            print(json.dumps(row), f"{time.monotonic() - start:.1f} s", flush=True)
            lines.write(json.dumps(row) + "\n")
            lines.flush()
    trace_step(build_products(), options.out / "products.json.gz")


if __name__ == "__main__":
    main()
