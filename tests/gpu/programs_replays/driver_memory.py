"""Memory that a library allocates through the driver is freed after two replays."""

import sys

import torch
from cuda.bindings import driver

from collectors.driver.calls import call

BYTES = 1 << 20
is_host = sys.argv[1] == "pinned"
x = torch.zeros(BYTES // 4, device="cuda")
torch.cuda.synchronize()
memory = call(driver.cuMemHostAlloc, BYTES, 0) if is_host else call(driver.cuMemAlloc, BYTES)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    x.add_(1)
    stream = torch.cuda.current_stream().cuda_stream
    copy = driver.cuMemcpyHtoDAsync if is_host else driver.cuMemcpyDtoDAsync
    call(copy, x.data_ptr(), memory, BYTES, stream)  # READS
for _ in range(2):
    graph.replay()
torch.cuda.synchronize()
call(driver.cuMemFreeHost if is_host else driver.cuMemFree, memory)
# The next allocation of the size takes the address, so the replay reads foreign values.
other = call(driver.cuMemHostAlloc, BYTES, 0) if is_host else call(driver.cuMemAlloc, BYTES)
graph.replay()
status, *_ = driver.cuStreamSynchronize(0)
print("ended with", status.name, int(memory) == int(other))
