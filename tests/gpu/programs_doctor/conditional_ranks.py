"""Two ranks capture an all-reduce of NCCL in a conditional body. Run with torchrun."""

import os
import threading
import time

import torch
import torch.distributed as dist
from cuda.bindings import driver

from collectors.driver.calls import call
from collectors.workloads.explicit import continue_after, get_capture_builder


def end_process() -> None:
    """A rank whose capture failed would wait for the other in its exit."""
    time.sleep(25)
    os._exit(1)


threading.Thread(target=end_process, daemon=True).start()
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=device)
x = torch.ones(1 << 10, device="cuda")
dist.all_reduce(x)
side = torch.cuda.Stream()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, capture_error_mode="thread_local"):
    y = x * 2
    stream = driver.CUstream(torch.cuda.current_stream().cuda_stream)
    builder, after = get_capture_builder(stream)
    node, (body,) = builder.add_conditional("IF", builder.create_condition(), 1, after)
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    call(
        driver.cuStreamBeginCaptureToGraph,
        side.cuda_stream,
        body.graph,
        None,
        None,
        0,
        mode,
    )
    with torch.cuda.stream(side):
        dist.all_reduce(x)  # BREAKS conditional-collective
    call(driver.cuStreamEndCapture, side.cuda_stream)
    continue_after(stream, [node])
    y += 1
graph.replay()
torch.cuda.synchronize()
print("replayed", y[0].item(), flush=True)
os._exit(0)
