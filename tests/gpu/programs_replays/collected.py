"""R15: a graph in a reference cycle is collected during another capture."""

import gc

import torch


class Holder:
    """Holds a graph and itself."""


x = torch.ones(1 << 20, device="cuda")
gc.disable()
holder = Holder()
holder.graph, holder.cycle = torch.cuda.CUDAGraph(), holder
with torch.cuda.graph(holder.graph):
    holder.result = x * 2
del holder
second = torch.cuda.CUDAGraph()
with torch.cuda.graph(second):
    y = x * 3
    gc.collect()  # COLLECTS
    z = y + 1
print("captured")
