"""compile_sums, compile_mends and compile_recorder with all of their models compiled at the same
time, and then measured one after another.

    python -m benchmarks.compile_together [--seconds 120] [--recorded 3]

Prints the three tables. Needs a GPU with torch, torchvision, transformers and torch-geometric.
"""

from __future__ import annotations

import argparse
import time
from itertools import chain

from benchmarks import compile_mends, compile_recorder, compile_sums
from benchmarks.compile_steps import wait_until_ready


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=120, help="Most until all are compiled.")
    parser.add_argument(
        "--recorded",
        type=int,
        default=compile_recorder.PROCESSES,
        help="Processes that are recorded, for each of the recorder's steps.",
    )
    chosen = parser.parse_args()
    begun = time.monotonic()
    sums = compile_sums.started(tuple(compile_sums.MODELS), compile_sums.STEPS)
    mends = compile_mends.started(tuple(compile_mends.MODELS), compile_mends.STEPS)
    recorder = compile_recorder.started(chosen.recorded, compile_recorder.COUNT)
    pairs, groups = chain.from_iterable(mends), chain.from_iterable(recorder)
    wait_until_ready((*sums, *pairs, *groups), chosen.seconds)
    print(f"compiled in {time.monotonic() - begun:.0f} s", flush=True)
    compile_sums.report(sums)
    compile_mends.report(mends)
    compile_recorder.report(recorder)
    print(f"all in {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
