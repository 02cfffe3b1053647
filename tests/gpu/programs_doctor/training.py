"""Trains and captures nothing: new batches from pageable memory, and a loss that is read."""

import torch
from torch import nn

model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)).cuda()
optimizer = torch.optim.Adam(model.parameters())
losses = []
for _ in range(12):
    batch = torch.randn(32, 64)
    x = batch.cuda()  # BREAKS unpinned-copy
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # BREAKS optimizer-capturable
    losses.append(loss.item())  # BREAKS sync-value
print(len(losses), "steps")
