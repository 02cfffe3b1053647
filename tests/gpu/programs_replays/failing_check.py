"""A program in which the check of memory itself fails."""

import torch

from collectors.replays.lifetimes import LifetimeWatch


def fail(_watch: object, graph_id: str) -> None:
    """Fail as a check with a defect would."""
    raise KeyError(graph_id)


LifetimeWatch.check = fail
x = torch.ones(64, device="cuda")
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = x * 2
for _ in range(30):
    graph.replay()
torch.cuda.synchronize()
print("replayed", y[0].item())
