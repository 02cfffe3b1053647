"""Read clocks and memory of GPUs through NVML, without a Python package.

Source: nvml.h of the driver (nvmlClockType_t, nvmlClocksEventReasons, nvmlMemory_v2_t,
nvmlProcessInfo_v2_t).
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeVar

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
    return _query(lambda nvml: _read_clocks(nvml, bus_id), load)


def read_driver_version(load: Callable[[], Any] | None = None) -> str | None:
    """Return the version of the loaded driver, or None if unavailable."""
    return _query(lambda nvml: _read_text(nvml.nvmlSystemGetDriverVersion), load)


class DeviceMemory(NamedTuple):
    """Memory of one GPU, in bytes."""

    used: int
    """Used by all processes and the driver, without the driver's reserve."""
    process: int | None
    """Used by one process. None if the driver does not list it."""
    others: int = 0


class _MemoryInfo(ctypes.Structure):
    """nvmlMemory_v2_t."""

    _fields_ = [
        ("version", ctypes.c_uint),
        ("total", ctypes.c_ulonglong),
        ("reserved", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    ]


class _ProcessInfo(ctypes.Structure):
    """nvmlProcessInfo_v2_t."""

    _fields_ = [
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


_MAX_PROCESSES: Final = 256
_UNKNOWN_BYTES: Final = (1 << 64) - 1
_MEMORY_VERSION: Final = ctypes.sizeof(_MemoryInfo) | 2 << 24
_TEXT_BYTES: Final = 96

_Value = TypeVar("_Value")


def read_device_memory(pid: int, load: Callable[[], Any] | None = None) -> dict[str, DeviceMemory]:
    """Return each GPU's memory by UUID, with the share of process ``pid``; empty if unavailable."""
    return _query(lambda nvml: dict(_iter_memory(nvml, pid)), load) or {}


def _iter_memory(nvml: Any, pid: int) -> Iterator[tuple[str, DeviceMemory]]:
    for index in range(_read_number(nvml.nvmlDeviceGetCount_v2)):
        device = ctypes.c_void_p()
        _call(nvml.nvmlDeviceGetHandleByIndex_v2, index, ctypes.byref(device))
        info = _MemoryInfo(_MEMORY_VERSION)
        _call(nvml.nvmlDeviceGetMemoryInfo_v2, device, ctypes.byref(info))
        count = ctypes.c_uint(_MAX_PROCESSES)
        processes = (_ProcessInfo * _MAX_PROCESSES)()
        _call(nvml.nvmlDeviceGetComputeRunningProcesses_v3, device, ctypes.byref(count), processes)
        shares = [entry.used for entry in processes[: count.value] if entry.pid == pid]
        share = shares[0] if shares and shares[0] != _UNKNOWN_BYTES else None
        others = sum(
            int(entry.used)
            for entry in processes[: count.value]
            if entry.pid != pid and entry.used != _UNKNOWN_BYTES
        )
        uuid = _read_text(nvml.nvmlDeviceGetUUID, device)
        yield uuid, DeviceMemory(int(info.used), share, others)


def _query(read: Callable[[Any], _Value], load: Callable[[], Any] | None) -> _Value | None:
    """Return the result of ``read`` with the library, or None if something is unavailable."""
    try:
        nvml = (load or _load_library)()
        _call(nvml.nvmlInit_v2)
    except (OSError, AttributeError, _NvmlError):
        return None
    try:
        return read(nvml)
    except (AttributeError, _NvmlError):
        return None
    finally:
        nvml.nvmlShutdown()


def keep_loaded() -> None:
    """Initialize NVML until the process ends, so that later reads cost microseconds."""
    with suppress(OSError, AttributeError, _NvmlError):
        _call(_load_library().nvmlInit_v2)


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
        throttle_reasons=tuple(
            dict.fromkeys(text for bit, text in _SLOWDOWN_REASONS.items() if reasons.value & bit)
        ),
    )


def _read_number(function: Any, *arguments: Any) -> int:
    value = ctypes.c_uint()
    _call(function, *arguments, ctypes.byref(value))
    return value.value


def _read_text(function: Any, *arguments: Any) -> str:
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    _call(function, *arguments, text, _TEXT_BYTES)
    return text.value.decode("ascii", "replace")


def _call(function: Any, *arguments: Any) -> None:
    status = function(*arguments)
    if status != 0:
        raise _NvmlError(status)
