"""R10: several iterations of two recurrent trainers in one graph."""

import torch
from torch import nn

STEPS, WIDTH = 15, 64
torch.manual_seed(0)


class Trainer:
    """Four recurrent modules and their optimizer."""

    def __init__(self) -> None:
        self.cells = nn.ModuleList(nn.GRUCell(WIDTH, WIDTH) for _ in range(4)).cuda()
        self.optimizer = torch.optim.AdamW(self.cells.parameters(), 1e-3, capturable=True)
        self.x = torch.randn(STEPS, 8, WIDTH, device="cuda")

    def run(self) -> torch.Tensor:
        """Train one iteration."""
        hidden = [torch.zeros(8, WIDTH, device="cuda") for _ in self.cells]
        for row in self.x:
            for number, cell in enumerate(self.cells):
                hidden[number] = cell(row if number == 0 else hidden[number - 1], hidden[number])
        loss = hidden[-1].square().mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss


trainers = [Trainer(), Trainer()]
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        for trainer in trainers:
            trainer.run()
torch.cuda.current_stream().wait_stream(side)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    for _ in range(2):
        losses = [trainer.run() for trainer in trainers]
for _ in range(10):
    graph.replay()
torch.cuda.synchronize()
print("replayed", all(loss.isfinite().item() for loss in losses))
