"""How long pairing and the critical path take for 10,000 to 1,000,000 kernels, and in what memory.

    python benchmarks/pairing.py [--repeats N]

A model of repeated blocks, every tenth with three parallel branches, of which a part of the kernels
is another, new or lost in the graph. Each size runs in a process of its own; generating it is not
timed. Times are of the CPU, on one core, so that neighbours on the machine do not count. Exit code
1 where a million kernels take longer than the goal, or where time grows faster than n log n does by
more than half.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import statistics
import subprocess
import sys
import time

import numpy as np

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.graph.critical_path import Dependencies, find_critical_path
from graphviz_dash.analysis.step_comparison.pairing import NOTHING, WorkSequence, pair_items

SIZES = (10_000, 100_000, 1_000_000)
DIFFER = (0.02, 0.1)
GOAL_S = 10.0

BLOCK, BRANCH, BRANCHES, FORKED = 60, 12, 3, 10


def blocks(count: int, generator: np.random.Generator) -> tuple[Ints, Ints]:
    """Code and branch (0: the trunk) of each of about ``count`` kernels, in the order of issue."""
    trunk = generator.integers(0, 40, BLOCK)
    branches = [generator.integers(40, 90, BRANCH) for _ in range(BRANCHES)]
    codes, owner = [], []
    total = block = 0
    while total < count:
        codes.append(trunk)
        owner.append(np.zeros(BLOCK, dtype=np.int64))
        if block % FORKED == FORKED - 1:
            codes += branches
            owner += [np.full(BRANCH, 1 + position) for position in range(BRANCHES)]
        total = sum(map(len, codes)) if block % 1000 == 0 else total + BLOCK
        block += 1
    return np.concatenate(codes), np.concatenate(owner)


def changed(codes: Ints, owner: Ints, differ: float, seed: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Key, operator and branch of the graph's kernels, and which eager one each is (-1: new)."""
    generator = np.random.default_rng(seed)
    fate = generator.random(len(codes))
    key, truth = codes.copy(), np.arange(len(codes))
    other = fate < differ * 0.5
    key[other] = 1_000 + generator.integers(0, 50, int(other.sum()))
    kept = np.flatnonzero(fate >= differ * 0.25 * (generator.random(len(codes)) < 0.5))
    new = np.flatnonzero(generator.random(len(kept)) < differ * 0.25)
    return (
        np.insert(key[kept], new, 2_000),
        np.insert(codes[kept], new, NOTHING),
        np.insert(owner[kept], new, owner[kept][new]),
        np.insert(truth[kept], new, -1),
    )


def edges_of(owner: Ints) -> Ints:
    """The dependencies of a trunk that forks into branches and joins again."""
    pairs: list[tuple[int, int]] = []
    last = -1
    ends: list[int] = []
    heads = np.flatnonzero(np.diff(owner, prepend=-1))
    for begin, stop in zip(heads.tolist(), [*heads[1:].tolist(), len(owner)], strict=True):
        if owner[begin] == 0:
            before = ends or ([last] if last >= 0 else [])
            pairs += [(one, begin) for one in before]
            last, ends = stop - 1, []
        else:
            pairs.append((last, begin))
            ends.append(stop - 1)
        pairs += [(position, position + 1) for position in range(begin, stop - 1)]
    return np.array(pairs, dtype=np.int64)


def measure(count: int, differ: float, repeats: int) -> dict[str, float]:
    """Medians in seconds, peak memory in MiB, precision and recall."""
    codes, owner = blocks(count, np.random.default_rng(1))
    key, op, branch, truth = changed(codes, owner, differ, 2)
    edges = edges_of(branch)
    before = WorkSequence.from_lanes(codes, codes, codes, np.zeros(len(codes), dtype=np.int64))
    after = WorkSequence(key, op, key, edges)
    duration = np.random.default_rng(3).integers(1_000, 50_000, len(key))
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times: list[tuple[float, float]] = []
    for _ in range(repeats):
        begin = time.process_time()
        pair_result = pair_items(before, after)
        middle = time.process_time()
        find_critical_path(Dependencies.from_edges(len(key), edges), duration)
        times.append((middle - begin, time.process_time() - middle))
    right = int((truth[pair_result.after] == pair_result.before).sum())
    return {
        "kernels": len(codes),
        "pairing": statistics.median(one for one, _ in times),
        "path": statistics.median(one for _, one in times),
        "mib": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) / 1024,
        "precision": right / len(pair_result.after),
        "recall": right / int((truth >= 0).sum()),
    }


def grown_by(small_count: int, large_count: int) -> float:
    """How much longer an n log n method takes for ``large_count`` than for ``small_count``."""
    return large_count * math.log(large_count) / (small_count * math.log(small_count))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--one", nargs=2, metavar=("KERNELS", "DIFFER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(int(options.one[0]), float(options.one[1]), options.repeats)))
        return 0
    meets_goal = True
    print("kernels | differ | pairing s | path s | both s | MiB | precision | recall")
    for differ in DIFFER:
        previous = None
        for size in SIZES:
            command = [sys.executable, __file__, "--one", str(size), str(differ)]
            command += ["--repeats", str(options.repeats)]
            row = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
            total_s = row["pairing"] + row["path"]
            print(
                f"{row['kernels']:,} | {differ:.0%} | {row['pairing']:.2f} | {row['path']:.2f} | "
                f"{total_s:.2f} | {row['mib']:.0f} | {row['precision']:.4f} | {row['recall']:.4f}"
            )
            meets_goal &= total_s < GOAL_S
            if previous is not None:
                meets_goal &= total_s / previous[0] < 1.5 * grown_by(previous[1], row["kernels"])
            previous = (total_s, row["kernels"])
    return 0 if meets_goal else 1


if __name__ == "__main__":
    sys.exit(main())
