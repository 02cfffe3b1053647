"""R5: captures that fail after an allocation keep its memory."""

import gc

import torch

x = torch.ones(1, device="cuda")
for _ in range(2):
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            block = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
            x.item()  # FAILS
    except RuntimeError:
        pass
    block = None
    del graph
    gc.collect()
    torch.cuda.empty_cache()
print("reserved", torch.cuda.memory_reserved())
