"""Launch costs measured from Python beside NVIDIA's C++ sample, in one run on one GPU.

    python -m evaluation.launch_vs_sample PROGRAM [--trials 60] [--patient PROGRAM]

PROGRAM is cudaGraphsPerfScaling of NVIDIA's cuda-samples, built with ``nvcc -O3 -arch=native``; its
source is not part of this repository. Their processes are interleaved, so that drift affects both.
``--patient`` adds a build of the sample whose waiting kernel waits longer. Prints medians in µs and
missed goals; exit code 1 if any. A repeat launch on an H200 has one of two speeds, and a median
falls between them. Speeds that both programs met are compared with each other (``speeds``).
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from collections import defaultdict
from typing import Final

from collectors.launch.processes import run_process
from graphviz_dash.model.launch import LaunchMeasure, Topology

COLUMNS: Final = {
    LaunchMeasure.CAPTURE: "capture",
    LaunchMeasure.INSTANTIATION: "instantiation",
    LaunchMeasure.FIRST_LAUNCH_CPU: "first_launch_api",
    LaunchMeasure.FIRST_LAUNCH: "first_launch_total",
    LaunchMeasure.REPEAT_LAUNCH_CPU: "repeat_launch_api",
    LaunchMeasure.REPEAT_LAUNCH: "repeat_launch_total",
    LaunchMeasure.FIRST_LAUNCH_DEVICE: "first_launch_device",
    LaunchMeasure.REPEAT_LAUNCH_DEVICE: "repeat_launch_device",
    LaunchMeasure.UPLOAD_CPU: "upload_api_time",
}
"""Our measures and the sample's columns; its upload on the GPU is timed together with a kernel."""

GOAL_US: Final = {LaunchMeasure.REPEAT_LAUNCH_CPU: 0.6}
"""Largest difference of medians in µs; for the other goals it is a ratio."""

GOAL_RATIO: Final = 1.10
WITHIN_RATIO: Final = (
    LaunchMeasure.INSTANTIATION,
    LaunchMeasure.FIRST_LAUNCH_CPU,
    LaunchMeasure.FIRST_LAUNCH,
    LaunchMeasure.FIRST_LAUNCH_DEVICE,
    LaunchMeasure.REPEAT_LAUNCH_DEVICE,
)

GRAPHS: Final = (
    *(Topology(1, length, False, None, 0) for length in (10, 20, 50, 100, 200, 500, 1000, 2000)),
    Topology(4, 100, False, None, 0),
)
TURNS: Final = 3

GAP: Final = 1.1
"""Samples further apart than this ratio, with none in between, are two speeds of the GPU. Those of
an H200 are 1.35 times apart; at 10 nodes, with the launch's own time in both, 1.14 times."""

Series = dict[tuple[Topology, LaunchMeasure], list[float]]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--patient")
    arguments = parser.parse_args()
    our_series: Series = defaultdict(list)
    theirs: Series = defaultdict(list)
    patient: Series = defaultdict(list)
    for _ in range(TURNS):
        trials_per_turn = arguments.trials // TURNS
        for graph in GRAPHS:
            run_sample(arguments.program, graph, trials_per_turn, theirs)
            if arguments.patient:
                run_sample(arguments.patient, graph, trials_per_turn, patient)
            run_ours(graph, trials_per_turn, our_series)
    misses = 0
    for kind in COLUMNS:
        print(f"\n{kind.value}, median µs\n")
        print("| graph | C++ | spread | Python | spread | Python less C++ | Python / C++ | |")
        print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
        for graph in GRAPHS:
            left, right = theirs[graph, kind], our_series[graph, kind]
            cpp, python = statistics.median(left), statistics.median(right)
            verdict = judge(kind, left, right)
            misses += verdict.startswith("missed")
            print(
                f"| {graph.width} x {graph.length} | {cpp:.2f} | {quartiles(left)} | {python:.2f} "
                f"| {quartiles(right)} | {python - cpp:+.2f} | {python / cpp:.2f} | {verdict} |"
            )
    if patient:
        print_patient(patient, our_series)
    print(f"\n{misses} goals missed")
    return int(misses > 0)


def judge(kind: LaunchMeasure, cpp: list[float], python: list[float]) -> str:
    """Compare a measure with its goal; empty without one."""
    if kind in GOAL_US:
        difference = abs(statistics.median(python) - statistics.median(cpp))
        return "met" if difference <= GOAL_US[kind] else "missed"
    if kind not in WITHIN_RATIO:
        return ""
    groups = [(cpp, python)]
    alone = ""
    if kind is LaunchMeasure.REPEAT_LAUNCH_DEVICE and (same := same_speeds(cpp, python)):
        groups = same
        alone = "".join(
            f", {len(speeds(values)) - len(same)} in {name} alone"
            for name, values in (("C++", cpp), ("Python", python))
            if len(speeds(values)) > len(same)
        )
    ratios = [statistics.median(right) / statistics.median(left) for left, right in groups]
    verdict = "met" if all(1 / GOAL_RATIO <= one <= GOAL_RATIO for one in ratios) else "missed"
    if groups == [(cpp, python)]:
        return verdict
    return f"{verdict}, by speed {', '.join(f'{one:.3f}' for one in ratios)}{alone}"


def speeds(values: list[float]) -> list[list[float]]:
    """``values`` in ascending order, divided wherever the next is more than ``GAP`` times as
    large."""
    groups: list[list[float]] = []
    for value in sorted(values):
        if groups and value <= GAP * groups[-1][-1]:
            groups[-1].append(value)
        else:
            groups.append([value])
    return groups


def same_speeds(cpp: list[float], python: list[float]) -> list[tuple[list[float], list[float]]]:
    """The samples of each speed that both met; a speed of one is that of the other where their
    samples overlap or come within ``GAP``."""
    return [
        (left, right)
        for left in speeds(cpp)
        for right in speeds(python)
        if max(left[0], right[0]) <= GAP * min(left[-1], right[-1])
    ]


def quartiles(values: list[float]) -> str:
    """The 25th to the 75th percentile."""
    low, _, high = statistics.quantiles(values, n=4)
    return f"{low:.2f} to {high:.2f}"


def run_ours(graph: Topology, trials: int, samples: Series) -> None:
    """Adds the trials of one process of ours, in µs."""
    measured_series = run_process((graph,), trials)
    if measured_series is None:
        raise KeyboardInterrupt
    for kind, values in measured_series.series[0].samples.items():
        samples[graph, kind] += [value / 1e3 for value in values]


def print_patient(patient: Series, ours: Series) -> None:
    print("\nDevice times, median µs, where the sample's kernel waits longer\n")
    print("| graph | measure | C++ | Python | Python / C++ |")
    print("| --- | --- | ---: | ---: | ---: |")
    for kind in (LaunchMeasure.FIRST_LAUNCH_DEVICE, LaunchMeasure.REPEAT_LAUNCH_DEVICE):
        for graph in GRAPHS:
            cpp, python = (statistics.median(one[graph, kind]) for one in (patient, ours))
            name = f"{graph.width} x {graph.length}"
            print(f"| {name} | {kind.value} | {cpp:.2f} | {python:.2f} | {python / cpp:.2f} |")


def run_sample(program: str, graph: Topology, trials: int, samples: Series) -> None:
    """Adds the trials of one run of the sample, in µs."""
    arguments = ["3", str(trials), str(graph.length), str(graph.width), "0"]
    output = subprocess.run(
        [program, *arguments], capture_output=True, text=True, check=True
    ).stdout
    head, *rows = (line for line in output.splitlines() if "," in line)
    names = [name.strip() for name in head.split(",")]
    for row in rows:
        values = dict(zip(names, row.split(","), strict=False))
        for kind, name in COLUMNS.items():
            samples[graph, kind].append(float(values[name]))


if __name__ == "__main__":
    sys.exit(main())
