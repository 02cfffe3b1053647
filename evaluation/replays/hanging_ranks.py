"""Ranks whose replays hang, for ``torchrun --nproc-per-node 2 -m``; arguments: KIND SEED.

Eight matrix products with an all-reduce each. ``spin``: rank 1 spins before the all-reduce of the
seed. ``skip``: the graph of rank 1 lacks it. ``late``: rank 1 does not replay. The hang ends with
the process after 9 seconds.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import sys
import threading
import time
from typing import Any

import torch
import torch.distributed as dist
from cuda.bindings import driver, runtime

from collectors.driver.calls import call
from collectors.replays.kernels import compile_source

LAYERS = 8
_SPIN = r"""
extern "C" __global__ void spin(volatile unsigned* flag) {
  while (*flag == 0) __nanosleep(1000);
}
"""


def main() -> None:
    kind, seed = sys.argv[1], int(sys.argv[2])
    rank = int(os.environ["RANK"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    torch.manual_seed(0)
    weights = [torch.randn(256, 256, device="cuda") / 20 for _ in range(LAYERS)]
    x = torch.randn(32, 256, device="cuda")
    target = random.Random(seed).randrange(LAYERS)
    flag = call(runtime.cudaHostAlloc, 4096, runtime.cudaHostAllocMapped)
    address = int(call(runtime.cudaHostGetDevicePointer, flag, 0))
    word = ctypes.c_uint32.from_address(int(flag))
    word.value = 1
    spin = load_spin()

    def step(*, plant: bool) -> torch.Tensor:
        h = x
        for number, weight in enumerate(weights):
            h = torch.tanh(h @ weight)
            if plant and number == target and kind == "spin":
                launch(spin, address)
            if not (plant and number == target and kind == "skip"):
                dist.all_reduce(h)
        return h

    for _ in range(3):
        step(plant=False)
    torch.cuda.synchronize()
    has_fault = rank == 1
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        step(plant=has_fault)
    if kind != "skip":
        for _ in range(2):
            graph.replay()
        torch.cuda.synchronize()
    if rank == 0:
        print("TRUTH " + json.dumps({"kind": kind, "collective": target + 1}), flush=True)
    word.value = 0
    threading.Thread(target=end_process, daemon=True).start()
    if kind != "late" or rank == 0:
        graph.replay()
        torch.cuda.synchronize()
    time.sleep(20)


def end_process() -> None:
    time.sleep(9)
    os._exit(0)


def load_spin() -> Any:
    """Load a kernel that waits for a word in host memory."""
    major, minor = torch.cuda.get_device_capability()
    module = call(driver.cuModuleLoadData, compile_source(_SPIN, f"sm_{major}{minor}"))
    return call(driver.cuModuleGetFunction, module, b"spin")


def launch(function: Any, address: int) -> None:
    argument = ctypes.c_void_p(address)
    pointers = (ctypes.c_void_p * 1)(ctypes.addressof(argument))
    stream = torch.cuda.current_stream().cuda_stream
    call(
        driver.cuLaunchKernel,
        function,
        *(1, 1, 1, 1, 1, 1, 0),
        stream,
        ctypes.addressof(pointers),
        0,
    )


main()
