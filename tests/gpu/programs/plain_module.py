"""Trains a small network; nothing in it knows of graphs or of profilers."""

import argparse
import sys

import torch
from torch import nn
from torch.nn import functional


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(32, width)
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(4))
        self.last = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.first(x))
        for block in self.blocks:
            x = x + functional.relu(block(x))
        return self.last(x)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--code", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = Net(128).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    x = torch.randn(64, 32, device="cuda")
    y = torch.randint(0, 10, (64,), device="cuda")
    for step in range(args.steps):
        optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step:3d} loss {loss.item():.3f}")
    print(f"trained, loss {loss.item():.3f}")
    return args.code


if __name__ == "__main__":
    sys.exit(main())
