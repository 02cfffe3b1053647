"""Trains a ResNet on random pictures; with --graph its whole step is captured once and replayed."""

import argparse

import torch
import torchvision
from torch.cuda import CUDAGraph


class Trainer:
    def __init__(self, batch: int) -> None:
        torch.manual_seed(0)
        self.model = torchvision.models.resnet18(num_classes=10).cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.criterion = torch.nn.CrossEntropyLoss()
        self.images = torch.randn(batch, 3, 64, 64, device="cuda")
        self.labels = torch.randint(0, 10, (batch,), device="cuda")

    def train_step(self) -> torch.Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        output = self.model(self.images)
        loss = self.criterion(output, self.labels)
        loss.backward()
        self.optimizer.step()
        return loss


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--graph", action="store_true")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    trainer = Trainer(args.batch)
    if args.graph:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                trainer.train_step()
        torch.cuda.current_stream().wait_stream(side)
        graph = CUDAGraph()
        with torch.cuda.graph(graph):
            loss = trainer.train_step()
        for _ in range(args.steps):
            graph.replay()
    else:
        for _ in range(args.steps + 3):
            loss = trainer.train_step()
    print("parameters", sum(p.numel() for p in trainer.model.parameters()))
    print("learned", bool(loss.item() < 2.0))


if __name__ == "__main__":
    main()
