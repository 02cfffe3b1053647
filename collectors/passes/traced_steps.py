"""Run synchronized steps under torch.profiler, one range each."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from collectors.passes.trace_file import export_trace
from collectors.workloads import Step
from graphviz_dash.model.marks import STEP

_SETTLE_ITERATIONS: Final = 3
"""Unmarked iterations while CUPTI allocates its buffers."""


def trace_steps(iterate: Step, iterations: int, path: Path) -> None:
    """Write the trace of ``iterations`` marked iterations to ``path``."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        for _ in range(_SETTLE_ITERATIONS):
            iterate()
            torch.cuda.synchronize()
        for index in range(iterations):
            with record_function(f"{STEP}{index}"):
                iterate()
                torch.cuda.synchronize()
    export_trace(profiler, path)
