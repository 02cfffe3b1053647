"""``gpt-train``: a training step of a GPT-style decoder in bf16 with configurable size."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from collectors.workloads import Step
from graphviz_dash.errors import InputError
from graphviz_dash.model.run import StepWork


@dataclass(frozen=True)
class GptSize:
    """Sizes of the model and of its input per step."""

    layers: int = 4
    hidden: int = 256
    heads: int = 4
    sequence: int = 128
    microbatch: int = 2
    """Sequences per step."""
    vocabulary: int = 4096

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "heads", "sequence", "microbatch", "vocabulary"):
            if getattr(self, name) < 1:
                raise InputError(f"--set {name}", str(getattr(self, name)), "at least 1")
        if self.hidden % self.heads:
            raise InputError(
                f"--set heads={self.heads}",
                f"hidden={self.hidden}, which {self.heads} heads do not divide",
                "hidden as a multiple of heads",
            )

    def work(self) -> StepWork:
        """Return the model FLOPs of one training step, 72 B s l h² (1 + s/6h + V/12lh).

        After Narayanan et al. 2021 (arXiv:2104.04473, section 5.1), without recomputation. Counts
        matrix multiplications only, backward as twice the forward, and causal attention in full.
        """
        tokens = self.microbatch * self.sequence
        forward = (
            self.layers * (24 * self.hidden**2 + 4 * self.sequence * self.hidden)
            + 2 * self.hidden * self.vocabulary
        )
        return StepWork(
            model_flops=3 * tokens * forward,
            tokens=tokens,
            precision="bf16",
            formula="72 B s l h^2 (1 + s/(6h) + V/(12lh)), arXiv:2104.04473",
        )


class Attention(nn.Module):
    """Causal self-attention with one projection for queries, keys and values."""

    def __init__(self, size: GptSize) -> None:
        super().__init__()
        self.heads = size.heads
        self.qkv = nn.Linear(size.hidden, 3 * size.hidden)
        self.project = nn.Linear(size.hidden, size.hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``x``, (batch, sequence, hidden), to the same shape."""
        batch, length, hidden = x.shape
        heads = self.qkv(x).view(batch, length, 3, self.heads, hidden // self.heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        joined = mixed.transpose(1, 2).reshape(batch, length, hidden)
        result: torch.Tensor = self.project(joined)
        return result


class Layer(nn.Module):
    """A pre-norm decoder layer with an MLP four times as wide as the model."""

    def __init__(self, size: GptSize) -> None:
        super().__init__()
        self.norm_attention = nn.LayerNorm(size.hidden)
        self.attention = Attention(size)
        self.norm_mlp = nn.LayerNorm(size.hidden)
        self.up = nn.Linear(size.hidden, 4 * size.hidden)
        self.down = nn.Linear(4 * size.hidden, size.hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``x``, (batch, sequence, hidden), to the same shape."""
        x = x + self.attention(self.norm_attention(x))
        wide = functional.gelu(self.up(self.norm_mlp(x)), approximate="tanh")
        result: torch.Tensor = x + self.down(wide)
        return result


class Embedding(nn.Module):
    """Token and position embeddings."""

    def __init__(self, size: GptSize) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size.vocabulary, size.hidden)
        self.places = nn.Parameter(torch.zeros(size.sequence, size.hidden))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """``tokens``: (batch, sequence); result: (batch, sequence, hidden)."""
        result: torch.Tensor = self.tokens(tokens) + self.places
        return result


class Gpt(nn.Module):
    """Embedding, layers, and a separate head over the vocabulary."""

    def __init__(self, size: GptSize) -> None:
        super().__init__()
        self.embed = Embedding(size)
        self.layers = nn.ModuleList(Layer(size) for _ in range(size.layers))
        self.norm = nn.LayerNorm(size.hidden)
        self.head = nn.Linear(size.hidden, size.vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """``tokens``: (batch, sequence); result: (batch, sequence, vocabulary)."""
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        result: torch.Tensor = self.head(self.norm(x))
        return result


def train(size: GptSize) -> Step:
    """Build a step of forward, cross entropy, backward and AdamW.

    Weights, gradients and optimizer state are bf16, without an fp32 copy.
    """
    with torch.device("cuda"):
        model = Gpt(size).to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True, capturable=True)
    shape = (size.microbatch, size.sequence + 1)
    tokens = torch.randint(size.vocabulary, shape, device="cuda")
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        logits = model(inputs)
        loss = functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
        loss.backward()
        optimizer.step()
        return loss

    return step
