"""Trains with a data loader that has workers and a pinning thread, and captures nothing."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    data = TensorDataset(torch.randn(512, 64), torch.randn(512, 1))
    loader = DataLoader(data, batch_size=32, num_workers=2, pin_memory=True)
    model = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.1), nn.Linear(64, 1)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        inputs = x.cuda(non_blocking=True)
        loss = (model(inputs) - y.cuda(non_blocking=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("loaded", loss.item() >= 0)
