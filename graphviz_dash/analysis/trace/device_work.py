"""Work of each GPU in the steps of a trace."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import get_column, get_spans
from graphviz_dash.analysis.trace.steps import Step, measure_span_union
from graphviz_dash.model.trace import Trace


class DeviceWork(Struct, frozen=True):
    """Work of one GPU; medians of the steps."""

    device: int
    kernels: float
    """Number of kernels per step."""
    busy_share: float
    """Fraction of the step with a busy GPU, 0 to 1."""


def measure_devices(trace: Trace, traced_steps: Sequence[Step]) -> tuple[DeviceWork, ...]:
    """Measure the work of each GPU in ``traced_steps``, by number."""
    device = get_column(trace.gpu, "device")
    numbers = np.unique(device)
    if len(numbers) < 2:
        return ()
    is_kernel = (trace.gpu["kind"] == "kernel").to_numpy()
    start, end = get_spans(trace.gpu)
    measured_devices = []
    for number in numbers.tolist():
        kernels, shares = [], []
        for step in traced_steps:
            rows = step.gpu_rows[device[step.gpu_rows] == number]
            kernels.append(int(is_kernel[rows].sum()))
            busy_ns = measure_span_union(step, start[rows], end[rows])
            shares.append(busy_ns / step.duration_ns if step.duration_ns else 0.0)
        measured_devices.append(
            DeviceWork(number, float(np.median(kernels)), float(np.median(shares)))
        )
    return tuple(measured_devices)
