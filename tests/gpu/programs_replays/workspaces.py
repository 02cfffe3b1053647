"""The workspaces of a library are freed while a graph uses one."""

import torch

# So few results from so long rows need partial sums in a workspace.
a = torch.randn(64, 1 << 17, device="cuda", dtype=torch.float16)
b = torch.randn(1 << 17, 64, device="cuda", dtype=torch.float16)
stream = torch.cuda.Stream()
stream.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(stream):
    a @ b
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, stream=stream):
    result = a @ b  # READS
for number in range(24):
    if number == 20:
        torch._C._cuda_clearCublasWorkspaces()  # FREES
    graph.replay()
torch.cuda.synchronize()
print("replayed")
