"""A capture runs out of memory."""

import torch

x = torch.ones(1, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = x * 2
    z = torch.empty(1 << 42, dtype=torch.uint8, device="cuda")  # FAILS
