"""R11: memory of the capturing stream is freed on another stream before the first random number."""

import torch

block = torch.empty(32 << 20, dtype=torch.uint8, device="cuda")
stream = torch.cuda.Stream()
torch.cuda.synchronize()
with torch.cuda.stream(stream):
    block.add_(1)
block.record_stream(stream)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
    with torch.cuda.stream(torch.cuda.default_stream()):
        del block
    noise = torch.rand(1024, device="cuda")  # DRAWS
graph.replay()
torch.cuda.synchronize()
print("replayed", noise.mean().item())
