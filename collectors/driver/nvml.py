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

_SLOWED: Final = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "heat",
    0x40: "heat",
    0x80: "power brake",
}
"""Reasons that lower the clocks of a busy GPU."""


class _RefusedError(Exception):
    """NVML returned an error."""


def gpu_clocks(bus_id: str, load: Callable[[], Any] | None = None) -> GpuClocks | None:
    """Return the current clocks of the GPU at PCI address ``bus_id``, or None if unavailable."""
    try:
        nvml = (load or _library)()
        _ask(nvml.nvmlInit_v2)
    except (OSError, AttributeError, _RefusedError):
        return None
    try:
        return _clocks(nvml, bus_id)
    except (AttributeError, _RefusedError):
        return None
    finally:
        nvml.nvmlShutdown()


def _library() -> Any:
    return ctypes.CDLL("nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1")


def _clocks(nvml: Any, bus_id: str) -> GpuClocks:
    device = ctypes.c_void_p()
    _ask(nvml.nvmlDeviceGetHandleByPciBusId_v2, bus_id.encode("ascii"), ctypes.byref(device))
    reasons = ctypes.c_ulonglong()
    # The pre-535 name still exists in later drivers.
    _ask(nvml.nvmlDeviceGetCurrentClocksThrottleReasons, device, ctypes.byref(reasons))
    return GpuClocks(
        sm_mhz=_number(nvml.nvmlDeviceGetClockInfo, device, _SM),
        max_sm_mhz=_number(nvml.nvmlDeviceGetMaxClockInfo, device, _SM),
        memory_mhz=_number(nvml.nvmlDeviceGetClockInfo, device, _MEMORY),
        slowed_by=tuple(
            dict.fromkeys(text for bit, text in _SLOWED.items() if reasons.value & bit)
        ),
    )


def _number(function: Any, device: ctypes.c_void_p, which: int) -> int:
    value = ctypes.c_uint()
    _ask(function, device, which, ctypes.byref(value))
    return value.value


def _ask(function: Any, *arguments: Any) -> None:
    status = function(*arguments)
    if status != 0:
        raise _RefusedError(status)
