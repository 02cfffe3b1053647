"""Captures a conditional body as NCCL leaves it: the kernel of a collective and an event node."""

import torch
from cuda.bindings import driver

from collectors.driver.calls import call
from collectors.workloads.explicit import (
    POINTER,
    Kernels,
    continue_after,
    get_capture_builder,
)

NAME = "ncclDevKernel_AllReduce_Sum_f32"
kernels = Kernels(f'extern "C" __global__ void {NAME}(float* x) {{ x[threadIdx.x] += 1.0f; }}')
function = kernels[NAME]
x = torch.zeros(32, device="cuda")
event = call(driver.cuEventCreate, 0)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = x * 2
    stream = driver.CUstream(torch.cuda.current_stream().cuda_stream)
    builder, after = get_capture_builder(stream)
    node, (body,) = builder.add_conditional("IF", builder.create_condition(), 1, after)
    reduced = body.add_kernel(function, 1, 32, ((x.data_ptr(),), (POINTER,)), [])
    body.add_event_record(event, [reduced])
    continue_after(stream, [node])
    y += 1
print("captured")
