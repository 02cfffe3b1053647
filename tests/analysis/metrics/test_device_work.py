from __future__ import annotations

from pathlib import Path

import pytest

from graphviz_dash.analysis.metrics.low_confidence import DeviceWork, measure_devices
from graphviz_dash.analysis.trace.steps import find_steps
from graphviz_dash.ingest.kineto.reader import read_trace
from tests.trace_builder import TraceBuilder


@pytest.mark.parametrize("devices", [1, 2])
def test_work_of_each_gpu(tmp_path: Path, devices: int) -> None:
    trace = TraceBuilder()
    for step in range(3):
        start = step * 1_000_000
        trace.annotation(f"ProfilerStep#{step}", start, 1_000_000)
        for number in range(4 * devices):
            trace._device = number % devices
            launch = trace.runtime("cudaLaunchKernel", start + number * 50_000, 1_000)
            trace.kernel("k", start + number * 50_000 + 5_000, 25_000, correlation=launch)
    loaded = read_trace(trace.write(tmp_path / "trace.json"))
    expected = tuple(DeviceWork(device, 4, 0.1) for device in range(devices))
    assert measure_devices(loaded, find_steps(loaded)) == (expected if devices > 1 else ())
