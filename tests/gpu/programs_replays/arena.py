"""R8: an arena is replaced after 20 replays of a graph that reads it."""

import torch

arena = torch.ones(1 << 16, device="cuda")  # ALLOCATES
x = torch.ones(1 << 16, device="cuda")
for _ in range(3):
    y = x + arena
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = x + arena  # READS
for number in range(24):
    if number == 20:
        arena = torch.ones(1 << 18, device="cuda")  # FREES
        others = [torch.full((1 << 16,), 13.0, device="cuda") for _ in range(4)]
    graph.replay()
torch.cuda.synchronize()
print("replayed", y[0].item())
