"""Captures a whole training step whose gradient nodes were created on the default stream."""

import torch

net = torch.nn.Linear(64, 64).cuda()
x = torch.randn(8, 64, device="cuda")
# Data-parallel wrappers keep the nodes that accumulate gradients, each with its stream.
kept = [p.view_as(p).grad_fn.next_functions[0][0] for p in net.parameters()]
for node in kept:
    node.register_hook(lambda *_: None)
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        net(x).sum().backward()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, stream=side):
    loss = net(x).sum()
    loss.backward()  # BREAKS gradient-stream
for _ in range(3):
    graph.replay()
torch.cuda.synchronize()
print("replayed", loss.item())
