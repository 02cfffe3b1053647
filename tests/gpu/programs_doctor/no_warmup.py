"""Calls cuBLAS for the first time inside a capture."""

import torch

x = torch.ones(64, 64, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = torch.linalg.inv_ex(x)  # BREAKS no-warmup
