"""Captures a graph of nodes that have no marks: ``memory``, ``conditional`` or ``child``."""

import ctypes
import sys

import torch
from cuda.bindings import driver

from collectors.workloads.all_nodes import all_nodes
from collectors.workloads.explicit import continue_after, create_graph, get_capture_builder

library = ctypes.CDLL(None)
semaphore = ctypes.create_string_buffer(64)
library.sem_init(semaphore, 0, 0)
post = ctypes.cast(library.sem_post, ctypes.c_void_p).value
x = torch.zeros(64, dtype=torch.int32, device="cuda")
everything = all_nodes()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    if sys.argv[1] == "memory":
        everything()
    else:
        x.add_(1)
        stream = driver.CUstream(torch.cuda.current_stream().cuda_stream)
        builder, after = get_capture_builder(stream)
        if sys.argv[1] == "conditional":
            node, (body,) = builder.add_conditional("IF", builder.create_condition(), 1, after)
            body.add_fill(x.data_ptr(), 7, 64, [])
        else:
            with create_graph() as inner:
                inner.add_fill(x.data_ptr(), 3, 1, [])
                node = builder.add_child(inner.graph, after)
        continue_after(stream, [builder.add_host_call(post, ctypes.addressof(semaphore), [node])])
for _ in range(3):
    graph.replay()
torch.cuda.synchronize()
print("replayed", x[0].item())
