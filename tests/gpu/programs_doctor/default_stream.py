"""Begins a capture on the default stream."""

import torch

x = torch.ones(8, device="cuda")
graph = torch.cuda.CUDAGraph()
graph.capture_begin()  # BREAKS default-stream
y = x * 2
graph.capture_end()
