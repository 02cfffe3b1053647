"""The workspace that captured matrix products use is cleared after two replays."""

import torch

stream = torch.cuda.Stream()
sources = [
    (
        torch.randn(64, 1 << 16, device="cuda", dtype=dtype),
        torch.randn(1 << 16, 64, device="cuda", dtype=dtype),
    )
    for dtype in (torch.float32, torch.float16, torch.bfloat16)
]
stream.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(stream):
    for a, b in sources:
        # Sums over many columns are split, and their parts are kept in the workspace.
        a @ b
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, stream=stream):
    results = [a @ b for a, b in sources]  # READS
for number in range(4):
    if number == 2:
        torch._C._cuda_clearCublasWorkspaces()  # FREES
        # New tensors take the memory before the next replay.
        others = [torch.zeros(4 << 20, dtype=torch.uint8, device="cuda") for _ in range(16)]
    graph.replay()
torch.cuda.synchronize()
print("replayed", float(results[0].sum()))
