"""``tp-transformer``: one training step of a transformer with layers split over the ranks.

Tensor parallelism follows Megatron-LM (Shoeybi et al., 2019, section 3): the first product of each
pair is split by columns, the second by rows, attention by heads. Each half of a layer needs one
all-reduce in each direction.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

from collectors.workloads import Step
from graphviz_dash.errors import GraphvizDashError

WIDTH = 512
HEADS = 8
LAYERS = 2
BATCH = 4
LENGTH = 128
VOCABULARY = 1024


def get_world_size() -> int:
    """Return the number of ranks in the process group, or 1 without a group."""
    return dist.get_world_size() if dist.is_initialized() else 1


def _all_reduce(x: torch.Tensor) -> torch.Tensor:
    if get_world_size() > 1:
        dist.all_reduce(x)
    return x


class _Split(torch.autograd.Function):
    """Enter the split part: identity, with the gradient summed over the ranks."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return _all_reduce(grad.contiguous())


class _Join(torch.autograd.Function):
    """Leave the split part: sum over the ranks, with identity gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(x)
        return _all_reduce(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad


class ColumnParallel(nn.Module):
    """A linear layer with the rows ``part`` of the weight on this rank, hence some outputs."""

    def __init__(self, full_layer: nn.Linear, part: torch.Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(full_layer.weight.detach()[part].clone())
        self.bias = nn.Parameter(full_layer.bias.detach()[part].clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``x``, (..., inputs) and equal on all ranks, to (..., local outputs)."""
        return functional.linear(_Split.apply(x), self.weight, self.bias)


class RowParallel(nn.Module):
    """A linear layer with the columns ``part`` of the weight on this rank, hence some inputs."""

    def __init__(self, full_layer: nn.Linear, part: torch.Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(full_layer.weight.detach()[:, part].clone())
        self.bias = nn.Parameter(full_layer.bias.detach().clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``x``, (..., local inputs), to (..., outputs), equal on all ranks."""
        joined: torch.Tensor = _Join.apply(functional.linear(x, self.weight))
        return joined + self.bias


class Attention(nn.Module):
    """Causal self-attention over this rank's heads."""

    def __init__(self, rank: int, ranks: int) -> None:
        super().__init__()
        self.heads = HEADS // ranks
        size = WIDTH // HEADS
        head_columns = torch.arange(WIDTH).view(HEADS, size)[
            rank * self.heads : (rank + 1) * self.heads
        ]
        columns = head_columns.flatten()
        thirds = torch.cat([columns + third * WIDTH for third in range(3)])
        self.qkv = ColumnParallel(nn.Linear(WIDTH, 3 * WIDTH), thirds)
        self.project = RowParallel(nn.Linear(WIDTH, WIDTH), columns)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``x``, (batch, length, width), to the same shape."""
        batch, length, _ = x.shape
        split = self.qkv(x).view(batch, length, 3, self.heads, WIDTH // HEADS)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        result: torch.Tensor = self.project(mixed.transpose(1, 2).reshape(batch, length, -1))
        return result


class Mlp(nn.Module):
    """Two products with an activation between, split over the ranks."""

    def __init__(self, rank: int, ranks: int) -> None:
        super().__init__()
        hidden_part = torch.arange(4 * WIDTH).chunk(ranks)[rank]
        self.up = ColumnParallel(nn.Linear(WIDTH, 4 * WIDTH), hidden_part)
        self.down = RowParallel(nn.Linear(4 * WIDTH, WIDTH), hidden_part)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``x``, (batch, length, width), to the same shape."""
        result: torch.Tensor = self.down(functional.gelu(self.up(x)))
        return result


class Block(nn.Module):
    """A pre-norm transformer layer with full norms on every rank."""

    def __init__(self, rank: int, ranks: int) -> None:
        super().__init__()
        self.norm_attention = nn.LayerNorm(WIDTH)
        self.attention = Attention(rank, ranks)
        self.norm_mlp = nn.LayerNorm(WIDTH)
        self.mlp = Mlp(rank, ranks)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``x``, (batch, length, width), to the same shape."""
        x = x + self.attention(self.norm_attention(x))
        result: torch.Tensor = x + self.mlp(self.norm_mlp(x))
        return result


class Transformer(nn.Module):
    """A transformer with embedding and head on every rank and split layers between.

    All ranks use the same seed, so the model does not depend on their number.
    """

    def __init__(self, rank: int, ranks: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Block(rank, ranks) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """``tokens``: (batch, length); result: (batch, length, vocabulary)."""
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        result: torch.Tensor = self.head(self.norm(x))
        return result


def train() -> Step:
    """Build a step of two 512-wide layers on 4 sequences of 128 tokens with AdamW.

    Raises:
        GraphvizDashError: The heads cannot be split evenly over the ranks.
    """
    ranks = get_world_size()
    if HEADS % ranks:
        raise GraphvizDashError(
            f"tp-transformer has {HEADS} heads and cannot be split over {ranks} ranks; "
            f"use a number that divides {HEADS}."
        )
    rank = dist.get_rank() if ranks > 1 else 0
    model = Transformer(rank, ranks).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), capturable=True)
    tokens = torch.randint(VOCABULARY, (BATCH, LENGTH + 1), device="cuda")
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        logits = model(inputs)
        loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        return loss

    return step
