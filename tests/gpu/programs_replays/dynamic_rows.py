"""R1: rows of any number, with the flag that skips changing sizes; prints the recordings."""

import torch
from torch._inductor import config
from torch._inductor.cudagraph_trees import get_container

config.triton.cudagraph_skip_dynamic_graphs = True
weight = torch.randn(256, 256, device="cuda")


@torch.compile(mode="reduce-overhead")
def reduce_rows(x: torch.Tensor) -> torch.Tensor:
    """Return a product of a fixed size from rows of any number."""
    return torch.relu(x.t() @ x) @ weight @ weight


for _ in range(3):
    for rows in (8, 16, 24, 40, 56):
        x = torch.randn(rows, 256, device="cuda")
        torch._dynamo.mark_dynamic(x, 0)
        torch.compiler.cudagraph_mark_step_begin()
        reduce_rows(x)
torch.cuda.synchronize()
manager = get_container(0).tree_manager
paths = [] if manager is None else list(manager.get_roots())
recordings = 0
while paths:
    recordings += 1
    paths += [child for children in paths.pop().children.values() for child in children]
print("RECORDINGS", recordings)
