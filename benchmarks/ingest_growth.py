"""How the time and memory of reading a trace grow with its size.

    python benchmarks/ingest_growth.py [--megabytes 10,30,100,300,1000,3000] [--source PATH]
        [--folder DIR] [--repeats 3] [--processes 2]

Traces are made and read as by ``ingest_vs_hta.py``; ``--folder`` keeps them. Prints a row for each
size, and the growth exponent from the smallest to the largest: 1 is linear.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
from pathlib import Path

from ingest_vs_hta import (
    MEGABYTE,
    SAMPLE,
    Load,
    json_bytes,
    made_trace,
    read_in_new_process,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--megabytes", default="10,30,100,300,1000,3000")
    parser.add_argument("--source", type=Path, default=SAMPLE, help="what the traces repeat")
    parser.add_argument("--folder", type=Path, help="where the traces are kept")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        rows = []
        print("| JSON | events | median (least to most) | CPU | ms for a MB | memory, MB |")
        print("| --- | --- | --- | --- | --- | --- |")
        for megabytes in options.megabytes.split(","):
            folder = (options.folder or Path(scratch)) / megabytes
            trace = folder / "made.json.gz"
            if not trace.exists():
                folder.mkdir(parents=True, exist_ok=True)
                made_trace(folder, int(float(megabytes) * MEGABYTE), options.source)
            size = json_bytes(trace) / MEGABYTE
            loads = [read_in_new_process(trace, options.processes) for _ in range(options.repeats)]
            rows.append((size, *_row(size, loads)))
    first, last = rows[0], rows[-1]
    span = math.log(last[0] / first[0])
    for label, column in (("time", 1), ("processor time", 2), ("memory", 3)):
        power = math.log(last[column] / first[column]) / span
        print(f"{label} grows with the size to the power {power:.2f}")


def _row(size: float, loads: list[Load]) -> tuple[float, float, float]:
    """Print the row of a size; return seconds, CPU seconds and bytes."""
    walls = sorted(load.seconds for load in loads)
    wall = statistics.median(walls)
    cpu = statistics.median(load.cpu for load in loads)
    memory = max(load.memory for load in loads)
    print(
        f"| {size:,.1f} MB | {loads[0].events:,} | {wall:.3f} s ({walls[0]:.3f} to "
        f"{walls[-1]:.3f}) | {cpu:.3f} s | {wall * 1000 / size:.1f} | {memory / MEGABYTE:,.0f} |",
        flush=True,
    )
    return wall, cpu, memory


if __name__ == "__main__":
    main()
