"""``decode``: a transformer generates tokens one by one from a static KV cache, batch 1, bf16."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from collectors.workloads import Step

WIDTH = 768
HEADS = 12
LAYERS = 12
CONTEXT = 512
VOCABULARY = 32_000


class Attention(nn.Module):
    """Attention of one new token over a cache of fixed size; unused positions are masked."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.project = nn.Linear(WIDTH, WIDTH, bias=False)
        shape = (1, HEADS, CONTEXT, WIDTH // HEADS)
        self.register_buffer("keys", torch.zeros(shape))
        self.register_buffer("values", torch.zeros(shape))
        self.keys: torch.Tensor
        self.values: torch.Tensor

    def forward(self, x: torch.Tensor, position: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """``x``: (1, 1, width); ``position``: (1,) index to write; ``mask``: (1, context) bool."""
        query, key, value = self.qkv(x).view(1, 1, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        self.keys.index_copy_(2, position, key)
        self.values.index_copy_(2, position, value)
        mixed = functional.scaled_dot_product_attention(
            query, self.keys, self.values, attn_mask=mask
        )
        result: torch.Tensor = self.project(mixed.transpose(1, 2).reshape(1, 1, WIDTH))
        return result


class Block(nn.Module):
    """A pre-norm decoder layer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_attention = nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.norm_mlp = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor, position: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Shapes as in :class:`Attention`."""
        x = x + self.attention(self.norm_attention(x), position, mask)
        result: torch.Tensor = x + self.down(functional.gelu(self.up(self.norm_mlp(x))))
        return result


class Decoder(nn.Module):
    """Embedding, layers and head; greedy selection of the next token."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, token: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """``token``: (1, 1); ``position``: (1,); result: (1, 1), the next token."""
        mask = torch.arange(CONTEXT, device=token.device).unsqueeze(0) <= position
        x = self.embed(token)
        for layer in self.layers:
            x = layer(x, position, mask)
        logits: torch.Tensor = self.head(self.norm(x))
        return logits.argmax(-1)


def decode() -> Step:
    """Build a step that generates one token; token and position stay on the GPU."""
    model = Decoder().to("cuda", torch.bfloat16).eval()
    token = torch.zeros((1, 1), dtype=torch.long, device="cuda")
    position = torch.zeros(1, dtype=torch.long, device="cuda")

    @torch.no_grad()
    def step() -> torch.Tensor:
        token.copy_(model(token, position))
        # The cache is a ring: any number of iterations stays inside it.
        position.add_(1).remainder_(CONTEXT)
        return token

    return step
