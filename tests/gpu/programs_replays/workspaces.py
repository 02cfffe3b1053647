"""The workspaces of a library are freed while a graph uses one."""

import torch

a = torch.randn(512, 512, device="cuda", dtype=torch.float16)
stream = torch.cuda.Stream()
stream.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(stream):
    a @ a
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, stream=stream):
    result = a @ a  # READS
for number in range(24):
    if number == 20:
        torch._C._cuda_clearCublasWorkspaces()  # FREES
    graph.replay()
torch.cuda.synchronize()
print("replayed")
