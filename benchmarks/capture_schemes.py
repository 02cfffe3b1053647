"""Compare training steps by capture scheme with published figures
(evaluation/reports/2026-11-23-capture-schemes.md).

The workload has the sizes of the published one. Record it on a GPU, then print the table anywhere::

    graphviz-dash collect --workload benchmarks.capture_schemes:train \
        --modes eager,graph,callables,partial,compile --warmup 50 -o runs/capture-schemes
    python -m benchmarks.capture_schemes runs/capture-schemes sample_traces/mlp-train
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from graphviz_dash.analysis.comparison.result import RunComparison

SIZES: Final = (4096, 2048, 1024, 512, 256)
DROPOUT: Final = (0.2, 0.1, 0.1)
BATCH: Final = 640

PUBLISHED_STEPS: Final = 7
"""Steps under the profiler in the published runs; their totals are over all of them."""

PUBLISHED_MS: Final = {
    "graph": (24.142, 8.690),
    "callables": (22.641, 11.450),
    "partial": (22.641, 19.842),
}
"""Self CPU time total, eager and by scheme: README of leimao/PyTorch-CUDA-Graph-Capture-Examples
(RTX 5080, NGC PyTorch 25.11). Its partial capture is of one block out of four layers."""

_METRICS: Final = (
    "step_time",
    "launch_cpu_time",
    "self_cpu_time",
    "graph_launches",
    "graph_work",
    "graph_work_share",
    "graph_time_share",
    "peak_reserved",
)


def train() -> Callable[[], object]:
    """Forward, loss, backward and SGD of the published network, on inputs that stay in place."""
    import torch
    from torch import nn

    # The published traces show TF32 kernels, which torch does not use unless told.
    torch.set_float32_matmul_precision("high")
    model = nn.Sequential()
    for width, after, drop in zip(SIZES[:-2], SIZES[1:-1], DROPOUT, strict=True):
        model.append(nn.Sequential(nn.Linear(width, after), nn.ReLU(), nn.Dropout(drop)))
    model.append(nn.Linear(*SIZES[-2:]))
    model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs = torch.randn(BATCH, SIZES[0], device="cuda")
    targets = torch.randn(BATCH, SIZES[-1], device="cuda")
    loss_of = nn.MSELoss()

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss: torch.Tensor = loss_of(model(inputs), targets)
        loss.backward()
        optimizer.step()
        return loss

    return step


def main(paths: list[str]) -> None:
    # Where the workload is collected there need be no dataframe engine.
    from graphviz_dash.analysis.comparison.compare import compare_runs
    from graphviz_dash.ingest.load import load_experiment

    ratios: dict[str, dict[str, float]] = {}
    for path in paths:
        result = compare_runs(load_experiment(Path(path)))
        runs = {run.name: run for run in result.runs}
        print(f"\n### {result.experiment.name}\n")
        print("| | " + " | ".join(runs) + " |")
        print("| --- |" + " ---: |" * len(runs))
        for metric in _METRICS:
            title = next(iter(runs.values()))[metric].metric.title
            print(f"| {title} | " + " | ".join(run[metric].text for run in runs.values()) + " |")
        ratios[result.experiment.name] = {
            name: self_cpu(runs["eager"]) / self_cpu(run) for name, run in runs.items()
        }
    print("\n### Self CPU time total of eager, divided by that of each scheme\n")
    print("| | published, per step | published | " + " | ".join(ratios) + " |")
    print("| --- |" + " ---: |" * (2 + len(ratios)))
    for scheme, (eager, graphed_ms) in PUBLISHED_MS.items():
        ours = " | ".join(f"{found[scheme]:.2f}x" for found in ratios.values())
        per_step = f"{eager / PUBLISHED_STEPS:.2f} to {graphed_ms / PUBLISHED_STEPS:.2f} ms"
        print(f"| {scheme} | {per_step} | {eager / graphed_ms:.2f}x | {ours} |")


def self_cpu(run: RunComparison) -> float:
    """Return the run's Self CPU time per step in ns; exit the program without one."""
    figure = run["self_cpu_time"]
    if figure.value is None:
        reason = figure.missing.reason if figure.missing else ""
        raise SystemExit(f"{run.name} has no self CPU time: {reason}")
    return figure.value


if __name__ == "__main__":
    main(sys.argv[1:])
