"""A graph is instantiated for launches from the device and launched without torch."""

import torch
from cuda.bindings import driver

from collectors.driver.calls import call

x = torch.zeros(64, device="cuda")
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph(keep_graph=True)
with torch.cuda.graph(graph):
    x.add_(1)
params = driver.CUDA_GRAPH_INSTANTIATE_PARAMS()
params.flags = int(driver.CUgraphInstantiate_flags.CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
handle = driver.CUgraph(int(graph.raw_cuda_graph()))
executable = call(driver.cuGraphInstantiateWithParams, handle, params)
stream = torch.cuda.current_stream().cuda_stream
call(driver.cuGraphUpload, executable, stream)
for _ in range(3):
    call(driver.cuGraphLaunch, executable, stream)
torch.cuda.synchronize()
print("launched", x[0].item())
