"""R9: the oldest of eight graphs with own pools and a common stream is reset."""

import torch

a = torch.randn(512, 512, device="cuda", dtype=torch.float16)
# The library is ready, but has no workspace for the other stream.
a @ a
stream = torch.cuda.Stream()
stream.wait_stream(torch.cuda.current_stream())
graphs = []
for _ in range(8):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        result = a @ a  # READS
    graphs.append((graph, result))
for graph, _ in graphs:
    graph.replay()
torch.cuda.synchronize()
oldest, first_result = graphs.pop(0)
del first_result, result
oldest.reset()  # FREES
torch.cuda.synchronize()
torch.cuda.empty_cache()
print("reserved", torch.cuda.memory_reserved())
for graph, _ in graphs:
    graph.replay()
torch.cuda.synchronize()
print("replayed")
