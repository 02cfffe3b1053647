"""A program with a new input per replay, so that the graph reads freed memory."""

import torch

weights = torch.ones(64, 64, device="cuda")
x = torch.ones(64, 64, device="cuda")
torch.mm(x, weights)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = torch.mm(x, weights)  # BREAKS moved-input
for number in range(3):
    x = torch.full((64, 64), float(number), device="cuda")
    graph.replay()
    torch.cuda.synchronize()
