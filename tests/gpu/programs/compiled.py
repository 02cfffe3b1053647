"""Use torch.compile in mode reduce-overhead, which captures cudagraph trees."""

import torch


class MLP(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(256, 256) for _ in range(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.nn.functional.gelu(layer(x))
        return x


def main() -> None:
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    model = MLP().cuda()
    compiled = torch.compile(model, mode="reduce-overhead")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x = torch.randn(128, 256, device="cuda")
    for step in range(50):
        optimizer.zero_grad()
        loss = (compiled(x) - 1).square().mean()
        loss.backward()
        optimizer.step()
        if step % 25 == 0:
            print(step, f"{loss.item():.3f}")
    model.eval()
    with torch.no_grad():
        for _ in range(10):
            y = compiled(x)
    print(tuple(y.shape), bool(torch.isfinite(y).all()))


main()
