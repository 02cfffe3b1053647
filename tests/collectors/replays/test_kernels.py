"""Each driver and compiler call of the hash kernels fails in turn."""

# ruff: noqa: N802 - the driver's names

from __future__ import annotations

import ctypes
import importlib
import sys
from collections.abc import Iterator
from enum import IntEnum
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.faults import Countdown


class Status(IntEnum):
    SUCCESS = 0
    OUT_OF_MEMORY = 2


class Driver:
    """Functions of the driver and of NVRTC that note their effects; the chosen call fails."""

    def __init__(self) -> None:
        self.fails = Countdown(0)
        self.modules: set[int] = set()
        self.mode = "global"
        self.launches: list[tuple[Any, ...]] = []

    def build_modules(self) -> tuple[ModuleType, ModuleType]:
        driver, nvrtc = ModuleType("cuda.bindings.driver"), ModuleType("cuda.bindings.nvrtc")
        for name in dir(type(self)):
            if name.startswith(("cu", "nvrtc")):
                module = driver if name.startswith("cu") else nvrtc
                setattr(module, name, self._wrap(name))
        driver.CUdevice_attribute = SimpleNamespace(  # type: ignore[attr-defined]
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR="major",
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR="minor",
        )
        driver.CUstreamCaptureMode = SimpleNamespace(  # type: ignore[attr-defined]
            CU_STREAM_CAPTURE_MODE_RELAXED="relaxed"
        )
        return driver, nvrtc

    def _wrap(self, name: str) -> Any:
        def function(*arguments: Any) -> tuple[Any, ...]:
            # Removals succeed, or no program could clean up.
            if name != "cuModuleUnload" and self.fails():
                return (Status.OUT_OF_MEMORY,)
            return (Status.SUCCESS, *getattr(self, name)(*arguments))

        function.__name__ = name
        return function

    def cuCtxGetCurrent(self) -> tuple[Any, ...]:
        return (7,)

    def cuCtxGetDevice(self) -> tuple[Any, ...]:
        return (0,)

    def cuDeviceGetAttribute(self, kind: str, _: int) -> tuple[Any, ...]:
        return ({"major": 9, "minor": 0}[kind],)

    def cuThreadExchangeStreamCaptureMode(self, mode: str) -> tuple[Any, ...]:
        self.mode, before = mode, self.mode
        return (before,)

    def cuModuleLoadData(self, code: bytes) -> tuple[Any, ...]:
        self.modules.add(len(self.modules))
        return (len(self.modules) - 1,)

    def cuModuleUnload(self, module: int) -> tuple[Any, ...]:
        self.modules.remove(module)
        return ()

    def cuModuleGetFunction(self, module: int, name: bytes) -> tuple[Any, ...]:
        assert module in self.modules
        return (name,)

    def cuFuncLoad(self, _: bytes) -> tuple[Any, ...]:
        return ()

    def cuLaunchKernel(self, function: bytes, *arguments: Any) -> tuple[Any, ...]:
        pointers = ctypes.cast(arguments[-2], ctypes.POINTER(ctypes.c_void_p))
        self.launches.append(
            (
                function,
                *(ctypes.c_uint64.from_address(pointers[number] or 0).value for number in (0, 1)),
                list((ctypes.c_uint64 * 2).from_address(pointers[5] or 0)),
            )
        )
        return ()

    def nvrtcCreateProgram(self, *_: Any) -> tuple[Any, ...]:
        return ("program",)

    def nvrtcCompileProgram(self, *_: Any) -> tuple[Any, ...]:
        return ()

    def nvrtcGetCUBINSize(self, _: str) -> tuple[Any, ...]:
        return (4,)

    def nvrtcGetCUBIN(self, *_: Any) -> tuple[Any, ...]:
        return ()


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.fixture
def kernels(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    cuda, bindings = ModuleType("cuda"), ModuleType("cuda.bindings")
    bindings.driver, bindings.nvrtc = driver.build_modules()  # type: ignore[attr-defined]
    cuda.bindings = bindings  # type: ignore[attr-defined]
    imported = ("collectors.replays.kernels", "collectors.driver.capture_mode")
    with monkeypatch.context() as patched:
        for name in imported:
            patched.delitem(sys.modules, name, raising=False)
        patched.setitem(sys.modules, "cuda", cuda)
        patched.setitem(sys.modules, "cuda.bindings", bindings)
        yield importlib.import_module(imported[0])
        for name in imported:
            sys.modules.pop(name, None)


def test_kernels_that_cannot_be_loaded_leave_no_module_and_are_loaded_again(
    kernels: ModuleType, driver: Driver
) -> None:
    failed: list[str] = []
    while True:
        driver.fails = Countdown(len(failed) + 1)
        try:
            kernels.get_kernels()
        except kernels.DriverError as error:
            failed.append(str(error).split()[0])
        if not driver.fails.over:
            break
        if failed.count("cuThreadExchangeStreamCaptureMode") < 2:
            assert (driver.modules, driver.mode) == (set(), "global"), failed[-1]
        else:
            # The last call, which restores the mode of the thread, failed itself.
            driver.modules.clear()
            driver.mode = "global"
    assert failed == [
        *("cuCtxGetCurrent", "cuCtxGetDevice", "cuDeviceGetAttribute", "cuDeviceGetAttribute"),
        "cuThreadExchangeStreamCaptureMode",
        *("nvrtcCreateProgram", "nvrtcCompileProgram", "nvrtcGetCUBINSize", "nvrtcGetCUBIN"),
        "cuModuleLoadData",
        *(3 * ["cuModuleGetFunction"] + 3 * ["cuFuncLoad"]),
        "cuThreadExchangeStreamCaptureMode",
    ]
    assert len(driver.modules) == 1
    # A loaded context is not loaded again.
    driver.fails = Countdown(0)
    kernels.get_kernels()
    assert len(driver.modules) == 1


def test_a_hash_that_cannot_be_launched_is_reported_and_the_next_one_launches(
    kernels: ModuleType, driver: Driver
) -> None:
    hashing = kernels.get_kernels()
    launch = (0x1234, (3, 5), (8, 1), 4, 3, 0x5678, 0)
    driver.fails = Countdown(1)
    with pytest.raises(kernels.DriverError, match="cuLaunchKernel returned OUT_OF_MEMORY"):
        hashing.launch_hash(*launch)
    assert driver.launches == []
    hashing.launch_hash(*launch)
    assert driver.launches == [(b"hash", 0x1234, 15, [3, 5])]


def test_each_call_of_an_added_node_is_reported(kernels: ModuleType, driver: Driver) -> None:
    hashing = kernels.get_kernels()
    module: Any = kernels
    module.driver.CUDA_KERNEL_NODE_PARAMS = SimpleNamespace
    added: list[tuple[Any, ...]] = []

    def cuGraphAddKernelNode(*arguments: Any) -> tuple[Any, ...]:
        if driver.fails():
            return (Status.OUT_OF_MEMORY,)
        added.append(arguments)
        return (Status.SUCCESS, 100)

    module.driver.cuGraphAddKernelNode = cuGraphAddKernelNode
    driver.fails = Countdown(1)
    with pytest.raises(kernels.DriverError, match="cuGraphAddKernelNode"):
        hashing.add_node("graph", [1, 2], "mark", 16, 32)
    assert added == []
    assert hashing.add_node("graph", [1, 2], "mark", 16, 32) == 100
    (graph, before, count, params) = added[0]
    assert (graph, before, count, params.func) == ("graph", [1, 2], 2, b"mark")
    assert params.kernelParams[0] == (16, 32)
