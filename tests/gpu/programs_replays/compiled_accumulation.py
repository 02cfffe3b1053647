"""R2: gradients of several backward passes of a compiled module."""

import torch

net = torch.nn.Linear(64, 64).cuda()
compiled = torch.compile(net, mode="reduce-overhead")
x = torch.randn(8, 64, device="cuda")
for _ in range(3):
    for _ in range(5):
        compiled(x).clone().sum().backward()  # CAUSE
