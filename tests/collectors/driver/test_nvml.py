from __future__ import annotations

import ctypes
from typing import Any

import pytest

from collectors.driver.nvml import (
    DeviceMemory,
    read_device_memory,
    read_driver_version,
    read_gpu_clocks,
)
from graphviz_dash.model.timings import GpuClocks

BUS = "0000:1B:00.0"
_REFUSED = 3


class Nvml:
    """A library whose GPU at BUS has an SM clock of 1,755 of 1,980 MHz."""

    def __init__(self, reasons: int = 0, refuses: str = "") -> None:
        self._reasons = reasons
        self._refuses = refuses
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml"):
            raise AttributeError(name)

        def function(*arguments: Any) -> int:
            self.calls.append(name)
            if name == self._refuses:
                return _REFUSED
            match name:
                case "nvmlDeviceGetHandleByPciBusId_v2":
                    assert arguments[0] == BUS.encode()
                case "nvmlDeviceGetCurrentClocksThrottleReasons":
                    arguments[1]._obj.value = self._reasons
                case "nvmlDeviceGetClockInfo":
                    arguments[2]._obj.value = {1: 1_755, 2: 3_201}[arguments[1]]
                case "nvmlDeviceGetMaxClockInfo":
                    arguments[2]._obj.value = 1_980
                case "nvmlDeviceGetCount_v2":
                    arguments[0]._obj.value = 1
                case "nvmlSystemGetDriverVersion":
                    arguments[0].value = b"580.95.05"
                case "nvmlDeviceGetUUID":
                    arguments[1].value = b"GPU-1"
                case "nvmlDeviceGetMemoryInfo_v2":
                    # The struct's size and version, as nvml.h computes them.
                    assert arguments[1]._obj.version == 0x2000028
                    arguments[1]._obj.used = 5_000
                case "nvmlDeviceGetComputeRunningProcesses_v3":
                    assert arguments[1]._obj.value > 1
                    arguments[1]._obj.value = 2
                    arguments[2][0].pid, arguments[2][0].used = 7, 1_000
                    arguments[2][1].pid, arguments[2][1].used = 8, (1 << 64) - 1
            return 0

        return function


@pytest.mark.parametrize(
    ("reasons", "slowed_by"),
    [
        # Idle, clocks set by an application, a display's.
        (0x001 | 0x002 | 0x100, ()),
        (0x004, ("power cap",)),
        (0x020 | 0x040 | 0x080, ("heat", "power brake")),
        (0x008, ("hardware slowdown",)),
    ],
)
def test_clocks_and_what_slows_a_gpu_at_work(reasons: int, slowed_by: tuple[str, ...]) -> None:
    nvml = Nvml(reasons)
    assert read_gpu_clocks(BUS, lambda: nvml) == GpuClocks(1_755, 1_980, 3_201, slowed_by)
    assert nvml.calls[-1] == "nvmlShutdown"


@pytest.mark.parametrize("refuses", ["nvmlInit_v2", "nvmlDeviceGetHandleByPciBusId_v2"])
def test_nvml_that_refuses_tells_nothing(refuses: str) -> None:
    nvml = Nvml(refuses=refuses)
    assert read_gpu_clocks(BUS, lambda: nvml) is None
    assert ("nvmlShutdown" in nvml.calls) == (refuses != "nvmlInit_v2")


def test_a_machine_without_the_library_tells_nothing() -> None:
    assert read_gpu_clocks(BUS, lambda: ctypes.CDLL("no-such-library.so.1")) is None


@pytest.mark.parametrize(
    ("pid", "share", "others"), [(7, 1_000, 0), (8, None, 1_000), (9, None, 1_000)]
)
def test_memory_of_a_gpu_and_of_one_process(pid: int, share: int | None, others: int) -> None:
    nvml = Nvml()
    assert read_device_memory(pid, lambda: nvml) == {"GPU-1": DeviceMemory(5_000, share, others)}
    assert nvml.calls[-1] == "nvmlShutdown"


@pytest.mark.parametrize("refuses", ["nvmlInit_v2", "nvmlDeviceGetMemoryInfo_v2"])
def test_memory_that_nvml_refuses_is_unknown(refuses: str) -> None:
    assert read_device_memory(7, lambda: Nvml(refuses=refuses)) == {}


def test_the_version_of_the_driver() -> None:
    nvml = Nvml()
    assert read_driver_version(lambda: nvml) == "580.95.05"
    assert nvml.calls[-1] == "nvmlShutdown"
    assert read_driver_version(lambda: Nvml(refuses="nvmlSystemGetDriverVersion")) is None
