"""``transformer-train``: one training step of a small causal transformer in single precision."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from collectors.workloads import Step

WIDTH = 256
HEADS = 8
LAYERS = 4
BATCH = 8
LENGTH = 64
VOCABULARY = 1024


class Attention(nn.Module):
    """Causal self-attention with one projection for queries, keys and values."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.project = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``x``, (batch, length, width), to the same shape."""
        batch, length, _ = x.shape
        heads = self.qkv(x).view(batch, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        joined = mixed.transpose(1, 2).reshape(batch, length, WIDTH)
        result: torch.Tensor = self.project(joined)
        return result


class Block(nn.Module):
    """A pre-norm transformer layer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_attention = nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.norm_mlp = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``x``, (batch, length, width), to the same shape."""
        x = x + self.attention(self.norm_attention(x))
        result: torch.Tensor = x + self.mlp(self.norm_mlp(x))
        return result


class Transformer(nn.Module):
    """Embedding, layers, and a head over the vocabulary."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(LAYERS))
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
    """Build a step of four 256-wide layers on 8 sequences of 64 tokens with AdamW."""
    model = Transformer().cuda()
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
