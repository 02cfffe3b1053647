"""Uses torch.compile's cudagraph trees, soundly."""

import torch
from torch import nn

model = torch.compile(nn.Sequential(nn.Linear(64, 64), nn.ReLU()).cuda(), mode="reduce-overhead")
x = torch.ones(8, 64, device="cuda")
with torch.no_grad():
    for _ in range(6):
        torch.compiler.cudagraph_mark_step_begin()
        y = model(x).sum().item()
print("compiled", y >= 0)
