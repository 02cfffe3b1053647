"""``graph-update``: one step in variants, each a separate graph, to test graph updates.

Each layer is a bf16 MLP block with a copy of the input on a parallel branch that is added at the
end. The variants differ in buffers, batch size, activation, operators or join order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from collectors.workloads import Step

WIDTH = 512
LAYERS = 6
VARIED_LAYER = 2
"""Layer that differs in two of the variants."""


@dataclass(frozen=True)
class Variant:
    """Differences of a variant from the first."""

    batch: int = 1
    activation: Callable[[], nn.Module] = nn.GELU
    extra: bool = False
    """A sigmoid ends the step."""
    joined_late: bool = False
    """In the varied layer, continue on the second stream after the copy."""
    from_device: bool = False
    """Copy the input from the device instead of the host."""
    norm_on_side_stream: bool = False
    """In the varied layer, run the norm on the second stream."""


VARIANTS = {
    "first": Variant(),
    "other buffers": Variant(),
    "batch 8": Variant(batch=8),
    "batch 64": Variant(batch=64),
    "another activation": Variant(activation=nn.ReLU),
    "one operator more": Variant(extra=True),
    "joined in another order": Variant(joined_late=True),
    "input on the device": Variant(from_device=True),
    "norm on the other branch": Variant(norm_on_side_stream=True),
}


class Layer(nn.Module):
    """One layer of a variant; ``odd`` marks the varied layer."""

    def __init__(self, variant: Variant, odd: bool, side_stream: torch.cuda.Stream) -> None:
        super().__init__()
        self._joined_late = variant.joined_late and odd
        self._norm_beside = variant.norm_on_side_stream and odd
        self._beside = side_stream
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.activation = variant.activation()
        self.down = nn.Linear(4 * WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: torch.Tensor, buffer: torch.Tensor) -> torch.Tensor:
        """Map ``x``, (batch, WIDTH), to the same shape; ``buffer`` receives a copy of ``x``."""
        main = torch.cuda.current_stream()
        self._beside.wait_stream(main)
        with torch.cuda.stream(self._beside):
            buffer.copy_(x)
            added = self.norm(buffer) if self._norm_beside else buffer
        x = self.down(self.activation(self.up(x)))
        if not self._joined_late:
            main.wait_stream(self._beside)
            return self._join_branches(x, added)
        # Continue on the second stream after the copy, waiting for the block.
        self._beside.wait_stream(main)
        with torch.cuda.stream(self._beside):
            x = self._join_branches(x, added)
        main.wait_stream(self._beside)
        return x

    def _join_branches(self, x: torch.Tensor, added: torch.Tensor) -> torch.Tensor:
        x = torch.add(x, added)
        return x if self._norm_beside else self.norm(x)


class Variation:
    """The step of one variant, with separate buffers and weights."""

    def __init__(self, variant: Variant) -> None:
        shape = (variant.batch, WIDTH)
        side_stream = torch.cuda.Stream()
        self._extra = variant.extra
        self._layers = [
            Layer(variant, number == VARIED_LAYER, side_stream) for number in range(LAYERS)
        ]
        for layer in self._layers:
            layer.to("cuda", torch.bfloat16)
        source = torch.randn(shape, dtype=torch.bfloat16)
        self._source = source.cuda() if variant.from_device else source.pin_memory()
        self._input = torch.empty(shape, dtype=torch.bfloat16, device="cuda")
        self._kept = [torch.empty_like(self._input) for _ in self._layers]

    @torch.no_grad()
    def __call__(self) -> torch.Tensor:
        """Return the layers' result, shape (batch, WIDTH)."""
        x: torch.Tensor = self._input.copy_(self._source, non_blocking=True)
        for layer, buffer in zip(self._layers, self._kept, strict=True):
            x = layer(x, buffer)
        return torch.sigmoid(x) if self._extra else x


class GraphUpdate:
    """The step of the first variant; ``variants`` holds the steps of all."""

    def __init__(self) -> None:
        self.variants: dict[str, Step] = {
            name: Variation(variant) for name, variant in VARIANTS.items()
        }
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for step in self.variants.values():
                step()
        torch.cuda.synchronize()

    def __call__(self) -> object:
        """Run the first variant."""
        return self.variants["first"]()


def graph_update() -> GraphUpdate:
    """Six layers in nine variants."""
    return GraphUpdate()
