"""The first random operator of a capture makes a forbidden call, as some versions of torch do."""

import torch
from cuda.bindings import runtime

library = torch.library.Library("planted", "DEF")
library.define("noise(Tensor x) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,))


def make_noise(x: torch.Tensor) -> torch.Tensor:
    """Ask for the state of an event, which ends a capture."""
    status, *_ = runtime.cudaEventQuery(event)
    if int(status) != 0:
        raise RuntimeError("CUDA error: operation not permitted when stream is capturing")
    return torch.empty_like(x)


library.impl("noise", make_noise, "CUDA")
x = torch.ones(64, device="cuda")
marker = torch.cuda.Event()
marker.record()
event = int(marker.cuda_event)
torch.cuda.synchronize()
torch.ops.planted.noise(x)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = x * 2
    z = torch.ops.planted.noise(y)  # BREAKS first-random
