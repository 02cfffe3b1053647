"""Read the GPU's clocks through NVML, without a Python package.

Source: nvml.h of the driver (nvmlClockType_t, nvmlClocksEventReasons).
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any, Final

from graphviz_dash.model.timings import GpuClocks

_SM: Final = 1
_MEMORY: Final = 2

_SLOWDOWN_REASONS: Final = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "heat",
    0x40: "heat",
    0x80: "power brake",
}
"""Reasons that lower the clocks of a busy GPU."""


class _NvmlError(Exception):
    """NVML returned an error."""


def read_gpu_clocks(bus_id: str, load: Callable[[], Any] | None = None) -> GpuClocks | None:
    """Return the current clocks of the GPU at PCI address ``bus_id``, or None if unavailable."""
    try:
        nvml = (load or _load_library)()
        _call(nvml.nvmlInit_v2)
    except (OSError, AttributeError, _NvmlError):
        return None
    try:
        return _read_clocks(nvml, bus_id)
    except (AttributeError, _NvmlError):
        return None
    finally:
        nvml.nvmlShutdown()


def _load_library() -> Any:
    return ctypes.CDLL("nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1")


def _read_clocks(nvml: Any, bus_id: str) -> GpuClocks:
    device = ctypes.c_void_p()
    _call(nvml.nvmlDeviceGetHandleByPciBusId_v2, bus_id.encode("ascii"), ctypes.byref(device))
    reasons = ctypes.c_ulonglong()
    # The pre-535 name still exists in later drivers.
    _call(nvml.nvmlDeviceGetCurrentClocksThrottleReasons, device, ctypes.byref(reasons))
    return GpuClocks(
        sm_mhz=_read_number(nvml.nvmlDeviceGetClockInfo, device, _SM),
        max_sm_mhz=_read_number(nvml.nvmlDeviceGetMaxClockInfo, device, _SM),
        memory_mhz=_read_number(nvml.nvmlDeviceGetClockInfo, device, _MEMORY),
        slowed_by=tuple(
            dict.fromkeys(text for bit, text in _SLOWDOWN_REASONS.items() if reasons.value & bit)
        ),
    )


def _read_number(function: Any, device: ctypes.c_void_p, which: int) -> int:
    value = ctypes.c_uint()
    _call(function, device, which, ctypes.byref(value))
    return value.value


def _call(function: Any, *arguments: Any) -> None:
    status = function(*arguments)
    if status != 0:
        raise _NvmlError(status)
