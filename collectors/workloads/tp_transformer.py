"""``tp-transformer``: one training step of a transformer whose layers are split over the ranks.

Tensor parallelism as Megatron-LM has it (Shoeybi et al., 2019, section 3): the first product of
each pair is split by columns, the second by rows, attention by heads. So each half of a layer needs
one all-reduce in the forward and one in the backward. On one rank nothing is split or reduced.
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


def world_size() -> int:
    """The ranks of the process group; 1 without one."""
    return dist.get_world_size() if dist.is_initialized() else 1


def _reduced(x: torch.Tensor) -> torch.Tensor:
    """The sum of ``x`` over the ranks, in place: it is a fresh result that nobody else holds."""
    if world_size() > 1:
        dist.all_reduce(x)
    return x


class _Split(torch.autograd.Function):
    """Into the split part: the identity, whose gradient is summed over the ranks."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """``x``, a tensor of any shape that all ranks hold."""
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        """Each rank has the gradient through its own part; their sum is the whole."""
        return _reduced(grad.contiguous())


class _Join(torch.autograd.Function):
    """Out of the split part: the sum over the ranks, whose gradient is the identity."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """``x``, this rank's term of the sum."""
        ctx.mark_dirty(x)
        return _reduced(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        """All ranks have the whole gradient already."""
        return grad


class ColumnParallel(nn.Module):
    """A linear layer of which this rank has the rows ``part`` of the weight: some outputs."""

    def __init__(self, whole: nn.Linear, part: torch.Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(whole.weight.detach()[part].clone())
        self.bias = nn.Parameter(whole.bias.detach()[part].clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x``: (..., inputs), the same on all ranks; result: (..., own outputs)."""
        return functional.linear(_Split.apply(x), self.weight, self.bias)


class RowParallel(nn.Module):
    """A linear layer of which this rank has the columns ``part`` of the weight: some inputs."""

    def __init__(self, whole: nn.Linear, part: torch.Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(whole.weight.detach()[:, part].clone())
        self.bias = nn.Parameter(whole.bias.detach().clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x``: (..., own inputs); result: (..., outputs), the same on all ranks."""
        joined: torch.Tensor = _Join.apply(functional.linear(x, self.weight))
        return joined + self.bias


class Attention(nn.Module):
    """Causal self-attention over the heads of this rank."""

    def __init__(self, rank: int, ranks: int) -> None:
        super().__init__()
        self.heads = HEADS // ranks
        size = WIDTH // HEADS
        own = torch.arange(WIDTH).view(HEADS, size)[rank * self.heads : (rank + 1) * self.heads]
        places = own.flatten()
        thirds = torch.cat([places + third * WIDTH for third in range(3)])
        self.qkv = ColumnParallel(nn.Linear(WIDTH, 3 * WIDTH), thirds)
        self.project = RowParallel(nn.Linear(WIDTH, WIDTH), places)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x``: (batch, length, width), as is the result."""
        batch, length, _ = x.shape
        split = self.qkv(x).view(batch, length, 3, self.heads, WIDTH // HEADS)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        result: torch.Tensor = self.project(mixed.transpose(1, 2).reshape(batch, length, -1))
        return result


class Mlp(nn.Module):
    """Two products with an activation between, split over the ranks where they meet."""

    def __init__(self, rank: int, ranks: int) -> None:
        super().__init__()
        own = torch.arange(4 * WIDTH).chunk(ranks)[rank]
        self.up = ColumnParallel(nn.Linear(WIDTH, 4 * WIDTH), own)
        self.down = RowParallel(nn.Linear(4 * WIDTH, WIDTH), own)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x``: (batch, length, width), as is the result."""
        result: torch.Tensor = self.down(functional.gelu(self.up(x)))
        return result


class Block(nn.Module):
    """A pre-norm transformer layer; the norms are whole on every rank."""

    def __init__(self, rank: int, ranks: int) -> None:
        super().__init__()
        self.norm_attention = nn.LayerNorm(WIDTH)
        self.attention = Attention(rank, ranks)
        self.norm_mlp = nn.LayerNorm(WIDTH)
        self.mlp = Mlp(rank, ranks)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x``: (batch, length, width), as is the result."""
        x = x + self.attention(self.norm_attention(x))
        result: torch.Tensor = x + self.mlp(self.norm_mlp(x))
        return result


class Transformer(nn.Module):
    """Embedding and head whole on every rank, the layers between split.

    Each rank draws the whole of every weight from the same seed and keeps its part, so that the
    model is the same for any number of ranks.
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
    """A step of two 512-wide layers on 4 sequences of 128 tokens with AdamW.

    Raises:
        GraphvizDashError: the heads cannot be split evenly over the ranks.
    """
    ranks = world_size()
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
