"""R1 and R2: compiled steps of public reports; prints recordings and errors."""

import json
import sys

import torch

kind = sys.argv[1]
if kind == "rows":
    torch._inductor.config.triton.cudagraph_skip_dynamic_graphs = True
    fixed = torch.randn(256, 256, device="cuda")

    @torch.compile(mode="reduce-overhead", dynamic=True)
    def reduce_rows(x: torch.Tensor) -> torch.Tensor:
        return x.sum(0, keepdim=True) @ fixed @ fixed  # CAUSE

    for _ in range(2):
        for rows in (8, 16, 24, 40, 56):
            x = torch.randn(rows, 256, device="cuda")
            torch._dynamo.mark_dynamic(x, 0)
            for _ in range(3):
                reduce_rows(x)
if kind == "accumulate":
    net = torch.nn.Linear(64, 64).cuda()
    compiled = torch.compile(net, mode="reduce-overhead")
    x = torch.randn(8, 64, device="cuda")
    for _ in range(3):
        for _ in range(5):
            compiled(x).clone().sum().backward()  # CAUSE
torch.cuda.synchronize()
print("FINISHED", json.dumps(kind))
