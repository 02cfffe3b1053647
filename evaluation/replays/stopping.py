"""A program whose graph crashes, hangs or outlives its memory.

``python -m evaluation.replays.stopping KIND BLOCKS SEED`` prints ``TRUTH {json}``. Run it under
``graphviz-dash collect --marks``.
"""

from __future__ import annotations

import ctypes
import gc
import json
import random
import sys
import threading
import time
from typing import Any

import torch
from cuda.bindings import driver, runtime

import collectors
from collectors.driver.calls import call
from collectors.replays.kernels import compile_source
from tests.gpu.planted_faults import ROWS, WIDTH, Block

_SOURCE = r"""
extern "C" __global__ void bad_store(float* p) { p[threadIdx.x] = 1.f; }
extern "C" __global__ void trap_here(float* p) { if (p) asm("trap;"); }
extern "C" __global__ void misaligned(char* p) { *(double*)(p + 1) = 1.0; }
extern "C" __global__ void spin(volatile unsigned* flag) {
  while (*flag == 0) __nanosleep(1000);
}
"""
RAW = {"bad-store": "bad_store", "trap": "trap_here", "misaligned": "misaligned", "spin": "spin"}
INDEX_KINDS = ("assert", "out-of-range")
REPLAYS = 40
LIBRARY = ctypes.CDLL(None)


class Planter:
    """Runs the planted fault in the forward pass of one block."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.index = torch.arange(ROWS, device="cuda")
        self.bias = torch.zeros(WIDTH, device="cuda")
        self.flag = call(runtime.cudaHostAlloc, 4096, runtime.cudaHostAllocMapped)
        self.mapped = int(call(runtime.cudaHostGetDevicePointer, self.flag, 0))
        self.functions: dict[str, Any] = {}
        self.semaphore = ctypes.create_string_buffer(64)
        if kind == "host":
            LIBRARY.sem_init(self.semaphore, 0, 0)
        if kind in RAW:
            major, minor = torch.cuda.get_device_capability()
            module = call(driver.cuModuleLoadData, compile_source(_SOURCE, f"sm_{major}{minor}"))
            name = RAW[kind]
            self.functions[kind] = call(driver.cuModuleGetFunction, module, name.encode())
        self.is_armed = False

    def launch(self, address: int) -> None:
        argument = ctypes.c_void_p(address)
        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(argument))
        call(
            driver.cuLaunchKernel,
            self.functions[self.kind],
            *(1, 1, 1, 32 if self.kind == "bad-store" else 1, 1, 1, 0),
            torch.cuda.current_stream().cuda_stream,
            ctypes.addressof(pointers),
            0,
        )

    def wait_on_host(self) -> None:
        """Capture a host function that waits for the semaphore."""
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        # cuda-bindings would free the function after its first call.
        ctypes.CDLL("libcuda.so.1").cuLaunchHostFunc(stream, LIBRARY.sem_wait, self.semaphore)

    def __call__(self, _state: object, x: torch.Tensor) -> torch.Tensor:
        """Apply the fault, only in the capture for kernels that would stop the warm-up."""
        if self.kind in INDEX_KINDS:
            return x.index_select(0, self.index)
        if self.kind in ("freed", "pool", "unmapped"):
            return x + self.bias
        if self.is_armed and self.kind == "host":
            self.wait_on_host()
        elif self.is_armed:
            targets = {"bad-store": 0x10, "trap": self.bias.data_ptr()}
            targets |= {"misaligned": self.bias.data_ptr(), "spin": self.mapped}
            self.launch(targets[self.kind])
        return x + 1.0


def main() -> None:
    kind, blocks, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.manual_seed(seed)
    net = torch.nn.Sequential(*(Block() for _ in range(blocks))).cuda()
    at = random.Random(seed).randrange(blocks)
    planter = Planter(kind)
    if kind == "unmapped":
        # A separate allocation, so that the driver gets it back when it is freed.
        planter.bias = torch.zeros(64 << 20, device="cuda")[:WIDTH]
    net[at].fault = planter
    x = torch.randn(ROWS, WIDTH, device="cuda")
    side = torch.cuda.Stream()
    with torch.no_grad(), torch.cuda.stream(side):
        for _ in range(3):
            net(x)
    torch.cuda.synchronize()
    other = None
    if kind == "pool":
        other = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(other):
            planter.bias = torch.full((WIDTH,), 0.5, device="cuda")
        other.replay()
        torch.cuda.synchronize()
    planter.is_armed = True
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), collectors.label("step", rows=ROWS), torch.cuda.graph(graph):
        result = net(x)
    print("TRUTH " + json.dumps({"kind": kind, "block": at, "blocks": blocks}), flush=True)
    if kind == "spin":

        def release() -> None:
            time.sleep(9)
            ctypes.c_uint32.from_address(int(self_flag)).value = 1

        self_flag = planter.flag
        threading.Thread(target=release, daemon=True).start()
    if kind == "host":
        threading.Thread(target=post_semaphore, args=(planter.semaphore,), daemon=True).start()
    for number in range(REPLAYS):
        if number == 20:
            free_memory(kind, planter, other)
            other = None
        graph.replay()
    torch.cuda.synchronize()
    print("finished", float(result.sum()), flush=True)


def post_semaphore(semaphore: Any) -> None:
    """Let the host function of each replay go on, after 9 seconds."""
    time.sleep(9)
    for _ in range(REPLAYS):
        LIBRARY.sem_post(semaphore)


def free_memory(kind: str, planter: Planter, other: Any) -> None:
    if kind in INDEX_KINDS:
        planter.index.fill_(10_000_000)
    if kind in ("freed", "unmapped"):
        planter.bias = torch.zeros(1, device="cuda")  # FREES
        gc.collect()
        if kind == "unmapped":
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
    if kind == "pool":
        planter.bias = torch.zeros(1, device="cuda")
        other.reset()  # FREES


main()
