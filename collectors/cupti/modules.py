"""Read the code of modules while the driver loads them, through CUPTI's resource callbacks.

Source: CUPTI API, "CUPTI Callback API". CUPTI allows one subscriber, so no profiler may run.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from collectors.cupti.cubin import LaunchControl, find_launch_control

_LIBRARIES: Final = ("libcupti.so.13", "libcupti.so.12", "libcupti.so")
_RESOURCE_DOMAIN: Final = 3
_MODULE_LOADED: Final = 6
_ENABLE: Final = 1


class _ResourceData(ctypes.Structure):
    _fields_ = (
        ("context", ctypes.c_void_p),
        ("resource", ctypes.c_void_p),
        ("descriptor", ctypes.c_void_p),
    )


class _ModuleData(ctypes.Structure):
    _fields_ = (
        ("module", ctypes.c_uint32),
        ("size", ctypes.c_size_t),
        ("cubin", ctypes.c_void_p),
    )


_CALLBACK: Final = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p
)


@contextmanager
def watch_modules() -> Iterator[Mapping[str, LaunchControl | None]]:
    """Collect the launch control of kernels in all modules loaded meanwhile, by mangled name.

    Empty without CUPTI, or if a profiler uses it. Kernels of different modules that share a name
    and differ are None.
    """
    kernels: dict[str, LaunchControl | None] = {}

    def on_resource(_user: Any, _domain: int, _id: int, data: int) -> None:
        descriptor = _ResourceData.from_address(data).descriptor
        if descriptor:
            module = _ModuleData.from_address(descriptor)
            if module.cubin and module.size:
                cubin = ctypes.string_at(module.cubin, module.size)
                for name, control in find_launch_control(cubin).items():
                    if kernels.setdefault(name, control) != control:
                        kernels[name] = None

    library = _load_library()
    callback = _CALLBACK(on_resource)
    subscriber = ctypes.c_void_p()
    process = os.getpid()
    if library is None or library.cuptiSubscribe(ctypes.byref(subscriber), callback, None):
        yield kernels
        return
    try:
        library.cuptiEnableCallback(
            ctypes.c_uint32(_ENABLE), subscriber, _RESOURCE_DOMAIN, ctypes.c_uint32(_MODULE_LOADED)
        )
        yield kernels
    finally:
        # A forked child ends the block too, but has no CUPTI.
        if os.getpid() == process:
            library.cuptiUnsubscribe(subscriber)


def _load_library() -> ctypes.CDLL | None:
    """Load the CUPTI that torch loaded, or another one, or return None."""
    for name in _LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None
