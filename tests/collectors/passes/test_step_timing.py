from __future__ import annotations

import importlib
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from collectors.passes.cpu_loop import REPEATS, time_cpu_loop
from graphviz_dash.model.timings import GpuClocks

CLOCKS = GpuClocks(1_980, 1_980, 3_201, ())


class Event:
    """A CUDA event: each is 2 ms after the one that was made before."""

    made = 0

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing
        Event.made += 1
        self._number = Event.made

    def record(self) -> None:
        pass

    def elapsed_time(self, later: Event) -> float:
        return 2.0 * (later._number - self._number)


@pytest.fixture
def timing(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module under test with a torch and a runtime that only count."""
    torch, cuda, bindings = ModuleType("torch"), ModuleType("cuda"), ModuleType("cuda.bindings")
    torch.cuda = SimpleNamespace(  # type: ignore[attr-defined]
        synchronize=lambda: None, Event=Event, current_device=lambda: 0
    )
    ok = type("Status", (int,), {"name": "cudaSuccess"})(0)
    bindings.runtime = SimpleNamespace(  # type: ignore[attr-defined]
        cudaDeviceGetPCIBusId=lambda length, device: (ok, b"0000:1B:00.0\0\0")
    )
    for module in (torch, cuda, bindings):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.delitem(sys.modules, "collectors.passes.step_timing", raising=False)
    module = importlib.import_module("collectors.passes.step_timing")
    yield module
    sys.modules.pop("collectors.passes.step_timing", None)


def test_a_process_keeps_its_series_and_the_machine_beside_them(
    timing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, asked = [], []

    def clocks(bus_id: str) -> GpuClocks:
        asked.append((bus_id, len(calls)))
        return CLOCKS

    monkeypatch.setattr(timing, "read_gpu_clocks", clocks)
    timings = timing.time_process(lambda: calls.append(1), 7_000, 5)
    assert (timings.warmup_ns, len(timings.steps), timings.graphs) == (7_000, 5, ())
    assert timings.back_to_back_ns == (2_000_000,) * 5
    assert all(0 <= step.launch_cpu_ns <= step.wall_ns for step in timings.steps)
    (process,) = timings.processes
    assert (process.step_count, process.back_to_back_count, process.gpu) == (5, 5, CLOCKS)
    assert len(process.cpu_loop_ns) == 2 * REPEATS
    # The clocks are read while the GPU still works, after all that is timed.
    ((bus_id, iterations),) = asked
    assert bus_id == "0000:1B:00.0"
    assert iterations == len(calls) > 2 * 5


def test_the_loop_is_timed_each_turn() -> None:
    assert len(time_cpu_loop()) == REPEATS
    assert min(time_cpu_loop()) > 0
