"""Compile the kernels of the measurements: an empty one and one that waits for the host."""

from __future__ import annotations

import ctypes
from typing import Any, Final

from cuda.bindings import driver, nvrtc

from collectors.driver.calls import call

_SOURCE: Final = rb"""
extern "C" __global__ void empty() {}

// Waits until the host sets the latch; gives up after a time, so that nothing hangs for ever.
extern "C" __global__ void hold(volatile int *latch, unsigned long long nanoseconds) {
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do {
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (now - begin < nanoseconds && *latch == 0);
    if (*latch == 0) latch[1] = 1;
}
"""

HOLD_NS: Final = 2_000_000_000
"""Maximum wait of the holding kernel."""


def load_kernels() -> tuple[Any, Any]:
    """Return the functions ``empty`` and ``hold``, compiled for the current device."""
    attribute = driver.CUdevice_attribute
    device = call(driver.cuCtxGetDevice)
    major = call(
        driver.cuDeviceGetAttribute,
        attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
        device,
    )
    minor = call(
        driver.cuDeviceGetAttribute,
        attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        device,
    )
    options = [f"--gpu-architecture=sm_{major}{minor}".encode()]
    program = call(nvrtc.nvrtcCreateProgram, _SOURCE, b"launch.cu", 0, [], [])
    call(nvrtc.nvrtcCompileProgram, program, len(options), options)
    code = b" " * call(nvrtc.nvrtcGetCUBINSize, program)
    call(nvrtc.nvrtcGetCUBIN, program, code)
    module = call(driver.cuModuleLoadData, code)
    return (
        call(driver.cuModuleGetFunction, module, b"empty"),
        call(driver.cuModuleGetFunction, module, b"hold"),
    )


class Latch:
    """Two words in pinned host memory: release flag and timeout flag."""

    def __init__(self) -> None:
        address = int(call(driver.cuMemHostAlloc, 8, driver.CU_MEMHOSTALLOC_DEVICEMAP))
        self._words = (ctypes.c_int * 2).from_address(address)
        self.arguments = (
            (address, HOLD_NS),
            (ctypes.c_void_p, ctypes.c_ulonglong),
        )

    def reset(self) -> None:
        """Reset the flags before launching the kernel."""
        self._words[0] = self._words[1] = 0

    def release(self) -> None:
        """Release the kernel."""
        self._words[0] = 1

    @property
    def gave_up(self) -> bool:
        """The kernel stopped waiting on its own."""
        return bool(self._words[1])
