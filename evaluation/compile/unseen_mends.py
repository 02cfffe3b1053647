"""Ten further models as one may write them and mended, which nobody had looked at when the
predictions of :mod:`graphviz_dash.analysis.compiled` were mended by those of
:mod:`evaluation.compile.fresh_mends`: ``evaluation.compile.mends --suite unseen``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Final

import torch
from torch import nn

from evaluation.compile.steps import DEVICE, Step, graphed, inference, random
from evaluation.compile.sums import vision

MODELS: Final[dict[str, Callable[[bool], Step]]] = {}


def model(build: Callable[[bool], Step]) -> Callable[[bool], Step]:
    """Adds a model: from whether it is mended to its step."""
    MODELS[build.__name__] = build
    return build


@model
def shufflenet_rescales_by_its_mean(mended: bool) -> Step:
    own = vision("shufflenet_v2_x1_0").eval()

    def forward(x: torch.Tensor) -> torch.Tensor:
        x = own.stage2(own.maxpool(own.conv1(x)))
        mean = x.abs().mean()
        x = x / (1 + (mean if mended else float(mean)))
        x = own.conv5(own.stage4(own.stage3(x)))
        return own.fc(x.mean((2, 3)))

    return inference(forward, random(4, 3, 160, 160))


@model
def squeezenet_logs_by_what_is_disabled(mended: bool) -> Step:
    own = vision("squeezenet1_1").eval()
    seen: list[float] = []

    def log(x: torch.Tensor) -> None:
        seen[:] = [x.abs().max().item()]

    logged = torch.compiler.disable(log)

    def forward(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = own.features[:6](x)
        largest = y.abs().max()
        if not mended:
            logged(y)
        return own.classifier(own.features[6:](y)).flatten(1), largest

    return inference(forward, random(4, 3, 160, 160))


@model
def electra_pools_what_is_no_padding(mended: bool) -> Step:
    from transformers import ElectraConfig, ElectraModel

    sizes = {"hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024}
    own = ElectraModel(ElectraConfig(num_hidden_layers=4, **sizes)).to(DEVICE).eval()
    head = nn.Linear(256, 64).to(DEVICE)

    def forward(tokens: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = own(tokens).last_hidden_state
        if mended:
            kept = (tokens != 0)[..., None]
            mean = (hidden * kept).sum((0, 1)) / kept.sum()
        else:
            rows, columns = torch.nonzero(tokens, as_tuple=True)
            mean = hidden[rows, columns].mean(0)
        return torch.softmax(head(mean), -1)

    return inference(forward, torch.randint(1, 30_000, (4, 48), device=DEVICE))


@model
def deit_clamps_when_it_must(mended: bool) -> Step:
    from transformers import DeiTConfig, DeiTModel

    sizes = {"hidden_size": 192, "num_attention_heads": 3, "intermediate_size": 768}
    own = DeiTModel(DeiTConfig(num_hidden_layers=4, **sizes)).to(DEVICE).eval()
    head = nn.Sequential(*(nn.Linear(192, 192) for _ in range(4))).to(DEVICE)

    def forward(x: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = own(x).last_hidden_state
        largest = hidden.abs().max()
        if mended:
            hidden = torch.where(largest > 100, hidden.clamp(-100, 100), hidden)
        elif largest > 100:
            hidden = hidden.clamp(-100, 100)
        return head(hidden[:, 0])

    return inference(forward, random(2, 3, 224, 224))


@model
def recurrence_keeps_its_state_in_an_argument(mended: bool) -> Step:
    cells = nn.ModuleList(nn.Linear(512, 512) for _ in range(12)).to(DEVICE)

    def forward(x: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = state
        for cell in cells:
            y = torch.tanh(cell(y) + x)
        if mended:
            return y.mean(1), y
        state.copy_(y)
        return y.mean(1), state

    return inference(forward, random(32, 512), random(32, 512))


@model
def experts_are_split_by_a_tensor_of_sizes(mended: bool) -> Step:
    first = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256)).to(DEVICE)
    experts = nn.ModuleList(nn.Linear(256, 256) for _ in range(4)).to(DEVICE)
    sizes = torch.tensor([64, 32, 96, 64], device=DEVICE)
    known = [64, 32, 96, 64]

    def forward(x: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
        parts = torch.split(first(x), known if mended else sizes.tolist())
        return torch.cat([torch.relu(own(part)) for own, part in zip(experts, parts, strict=True)])

    return inference(forward, random(256, 256), sizes)


@model
def decoder_normalises_on_the_cpu(mended: bool) -> Step:
    own = nn.Sequential(*(part for _ in range(6) for part in (nn.Linear(512, 512), nn.GELU())))
    head = nn.Sequential(*(part for _ in range(6) for part in (nn.Linear(512, 512), nn.GELU())))
    both = nn.ModuleList([own, head]).to(DEVICE)

    def forward(x: torch.Tensor) -> torch.Tensor:
        y = both[0](x)
        mean = y.mean(0)
        if not mended:
            mean = mean.cpu().to(DEVICE)
        return both[1](y - mean)

    return inference(forward, random(64, 512))


@model
def ranking_is_given_two_tables(mended: bool) -> Step:
    users, items = random(200_000, 64), random(300_000, 64)
    head = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 1)).to(DEVICE)
    if mended:
        torch._dynamo.mark_static_address(users)
        torch._dynamo.mark_static_address(items)

    def forward(index: torch.Tensor, users: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        pairs = torch.cat([users[index[:, 0]], items[index[:, 1]]], 1)
        return head(pairs)

    index = torch.randint(0, 200_000, (1024, 2), device=DEVICE)
    return inference(forward, index, users, items)


@model
def training_warns_of_what_is_large(mended: bool) -> Step:
    body = nn.Sequential(*(part for _ in range(4) for part in (nn.Linear(256, 256), nn.Tanh())))
    head = nn.Sequential(*(part for _ in range(4) for part in (nn.Linear(256, 256), nn.Tanh())))
    both = nn.ModuleList([body, head]).to(DEVICE)
    x, goal = random(64, 256), random(64, 256)

    def losses(x: torch.Tensor) -> torch.Tensor:
        state = body(x)
        if not mended:
            largest = float(state.detach().abs().max())
            if largest > 1e6:
                warnings.warn(f"{largest} is large", stacklevel=1)
        return (head(state) - goal).square().mean()

    compiled = graphed(losses)

    def step() -> None:
        torch.compiler.cudagraph_mark_step_begin()
        compiled(x).backward()
        both.zero_grad()

    return step


class Block(nn.Module):
    """A layer with a residual, as one writes it oneself."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.wide, self.narrow = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = nn.functional.gelu(self.wide(self.norm(x)))
        return x + self.narrow(hidden)


@model
def residual_blocks_count_in_a_loop(mended: bool) -> Step:
    blocks = nn.ModuleList(Block(192) for _ in range(6)).to(DEVICE)
    counts: list[int] = []

    def forward(x: torch.Tensor) -> torch.Tensor:
        for block in blocks:
            x = block(x)
            if not mended:
                counts[:] = [int((x > 0).sum())]
        return x.mean(1)

    return inference(forward, random(8, 32, 192))
