"""Uses make_graphed_callables, soundly."""

import torch
from torch import nn

model = nn.Sequential(nn.Linear(64, 64), nn.ReLU()).cuda()
x = torch.ones(8, 64, device="cuda", requires_grad=True)
model = torch.cuda.make_graphed_callables(model, (x,))
for _ in range(4):
    model(x).sum().backward()
torch.cuda.synchronize()
print("graphed")
