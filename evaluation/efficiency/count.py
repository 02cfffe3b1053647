"""Count the work of an eager step of each program, for :mod:`evaluation.efficiency.score`.

On a GPU with Nsight Compute, alone:

    python -m evaluation.efficiency.count OUT --trace
    ncu OPTIONS --metrics BYTES --log-file OUT/bytes.csv python -m evaluation.efficiency.count OUT
    ncu OPTIONS --metrics FLOPS --log-file OUT/flops.csv -k regex:KERNELS \\
        python -m evaluation.efficiency.count OUT
    python -m evaluation.efficiency.join_counters OUT evaluation/data/efficiency

OPTIONS is ``--profile-from-start off --clock-control none --csv --page raw --print-units base``.
BYTES and FLOPS are in :mod:`evaluation.efficiency.join_counters`. All BYTES fit one pass, so ncu
replays no kernel and a step of 100 kernels needs a few seconds. FLOPS need several passes, so
KERNELS selects those with matrix products.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from cuda.bindings import runtime

from collectors.ceilings.kernels import CeilingKernels
from evaluation.efficiency.programs import PROGRAMS
from evaluation.efficiency.record_cases import trace_step


def main() -> None:
    """Count or trace all programs; write their names to ``OUT/programs.json``."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--programs", nargs="+", default=list(PROGRAMS))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    torch.zeros(1, device="cuda")
    marks = CeilingKernels()
    for name in options.programs:
        step = PROGRAMS[name]()
        if options.trace:
            trace_step(step, options.out / f"{name}.json.gz")
            continue
        for _ in range(3):
            step()
        torch.cuda.synchronize()
        runtime.cudaProfilerStart()
        # An empty kernel marks the start of a program in the table of ncu.
        marks.launch("empty", 1)
        step()
        torch.cuda.synchronize()
        runtime.cudaProfilerStop()
        del step
        torch.cuda.empty_cache()
    (options.out / "programs.json").write_text(json.dumps(options.programs))


if __name__ == "__main__":
    main()
