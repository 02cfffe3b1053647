"""Speedups from generated damaged traces, compared with the highest possible ones.

``python -m evaluation.traces.bounds`` removes records, cuts steps and files, merges ranks, doubles
marks and shifts clocks in 10,000 traces. It prints each failure, and ends with 1 if there are any.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

from msgspec import Struct

from tests.analysis.trace.damage import check_damage, draw_damage

_PROGRESS = 500


class Result(Struct):
    """Counts of the traces that were tried."""

    traces: int = 0
    speedups_count: int = 0
    """Traces with a speedup, of one rank if merged."""
    failures: int = 0
    highest: float = 0.0
    """Highest speedup, relative to its bound."""


def try_traces(count: int, seed: int) -> Result:
    """Check the conclusions from ``count`` generated traces."""
    draw = random.Random(seed)
    result = Result()
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(count):
            damage = draw_damage(draw)
            result.traces += 1
            try:
                speedups = check_damage(damage, Path(folder))
            except AssertionError as error:
                result.failures += 1
                print(f"{damage}: {error}", flush=True)
                continue
            result.speedups_count += bool(speedups)
            result.highest = max([result.highest, *speedups])
            if result.traces % _PROGRESS == 0:
                print(_format(result), file=sys.stderr, flush=True)
    return result


def _format(result: Result) -> str:
    return (
        f"{result.traces:,} traces, {result.speedups_count:,} with a speedup, "
        f"{result.failures:,} failed; "
        f"the highest speedup is {result.highest:.3f} of its bound"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    result = try_traces(arguments.count, arguments.seed)
    print(_format(result))
    return int(result.failures > 0)


if __name__ == "__main__":
    sys.exit(main())
