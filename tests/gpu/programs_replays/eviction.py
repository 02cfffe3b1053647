"""R9: the oldest of eight graphs with own pools and a common stream is reset."""

import torch

a = torch.randn(512, 512, device="cuda", dtype=torch.float16)
stream = torch.cuda.Stream()
graphs = []
for _ in range(8):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        result = a @ a  # READS
    graphs.append((graph, result))
for graph, _ in graphs:
    graph.replay()
torch.cuda.synchronize()
oldest, _ = graphs.pop(0)
oldest.reset()  # FREES
for graph, _ in graphs:
    graph.replay()
torch.cuda.synchronize()
print("replayed")
