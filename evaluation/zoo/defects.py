"""Ten models, each as written and with a fix.

As written, each loses a large part of its step to one line that runs in each of its layers.
``python -m evaluation.compile.gains`` scores the predicted gain from the fix on a GPU,
``python -m evaluation.compile.variants`` compares both variants on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import nn

from evaluation.compile.steps import DEVICE, Step, graphed, inference, random
from evaluation.zoo.compiled_models import vision

MODELS: Final[dict[str, Callable[[bool], Step]]] = {}


def model(build: Callable[[bool], Step]) -> Callable[[bool], Step]:
    """Register a model: a function that builds its step, as written or fixed."""
    MODELS[build.__name__] = build
    return build


class Attention(nn.Module):
    """Causal self-attention of a few heads."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.inside, self.outside = nn.Linear(size, 3 * size), nn.Linear(size, size)

    def heads_of(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Queries, keys and values, shape (batch, heads, tokens, size of a head)."""
        return tuple(
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.inside(x).chunk(3, -1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        attention_output = nn.functional.scaled_dot_product_attention(
            *self.heads_of(x), is_causal=True
        )
        return self.outside(attention_output.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """A layer of a decoder: attention, what is ``between``, and a feed-forward part."""

    def __init__(self, size: int, heads: int, middle: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.attention, self.between = Attention(size, heads), middle
        self.first, self.second = nn.LayerNorm(size), nn.LayerNorm(size)
        self.feed = nn.Sequential(nn.Linear(size, 2 * size), nn.GELU(), nn.Linear(2 * size, size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.first(x))
        self.between(x)
        return x + self.feed(self.second(x))


class Layer(nn.Module):
    """A linear layer with a norm before it and a function behind it."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(size), nn.Linear(size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.silu(self.linear(self.norm(x)))


def layers(count: int, size: int) -> nn.ModuleList:
    """So many layers."""
    return nn.ModuleList(Layer(size) for _ in range(count)).to(DEVICE)


@model
def decoder_prints_in_each_layer(is_fixed: bool) -> Step:
    """python-side-effect: a line printed in each of eight layers."""

    def shown(x: torch.Tensor) -> None:
        if not is_fixed:
            print(end="")

    blocks = nn.Sequential(*(Block(256, 4, shown) for _ in range(8))).to(DEVICE).eval()

    def forward(x: torch.Tensor) -> torch.Tensor:
        for block in blocks:
            x = block(x)
        return x

    return inference(forward, random(2, 48, 256))


@model
def bert_prints_from_a_hook(is_fixed: bool) -> Step:
    """python-side-effect: a hook on each layer of a model from a library."""
    from transformers import BertConfig, BertModel

    sizes = {"hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024}
    own = BertModel(BertConfig(num_hidden_layers=6, **sizes)).to(DEVICE).eval()

    def shown(module: nn.Module, inputs: object, output: object) -> None:
        if not is_fixed:
            print(end="")

    for layer in own.encoder.layer:
        layer.register_forward_hook(shown)

    def forward(tokens: torch.Tensor) -> torch.Tensor:
        hidden_states: torch.Tensor = own(tokens).last_hidden_state
        return hidden_states.mean(1)

    return inference(forward, torch.randint(0, 30_000, (2, 48), device=DEVICE))


@model
def graph_network_reads_each_norm(is_fixed: bool) -> Step:
    """value-read: each layer is scaled by a norm that is read."""
    from torch_geometric.nn import GCNConv

    convolutions = nn.ModuleList(GCNConv(64, 64, add_self_loops=False) for _ in range(6)).to(DEVICE)
    edges = torch.randint(0, 1_000, (2, 6_000), device=DEVICE)

    def forward(x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        for convolution in convolutions:
            x = torch.relu(convolution(x, edges))
            largest = x.abs().amax() + 1
            x = x / (largest if is_fixed else largest.item())
        return x

    return inference(forward, random(1_000, 64), edges)


class Normalised(nn.Module):
    """What a function of somebody else's makes of a norm."""

    def __init__(self, module: nn.Module, call: Callable[[nn.Module, torch.Tensor], Any]) -> None:
        super().__init__()
        self.own, self.call = module, call

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normal: torch.Tensor = self.call(self.own, x)
        return normal


@model
def llama_calls_norms_that_are_disabled(is_fixed: bool) -> Step:
    """disabled-function: the two norms of each of four layers are not to be compiled."""
    from transformers import LlamaConfig, LlamaModel

    sizes = {"hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 512}
    config = LlamaConfig(num_hidden_layers=4, num_key_value_heads=4, vocab_size=8_000, **sizes)
    own = LlamaModel(config).to(DEVICE).eval()

    def called(norm: nn.Module, x: torch.Tensor) -> Any:
        return norm(x)

    call = called if is_fixed else torch.compiler.disable(called)
    for layer in own.layers:
        layer.input_layernorm = Normalised(layer.input_layernorm, call)
        layer.post_attention_layernorm = Normalised(layer.post_attention_layernorm, call)

    def forward(tokens: torch.Tensor) -> torch.Tensor:
        hidden_states: torch.Tensor = own(tokens, use_cache=False).last_hidden_state
        return hidden_states @ own.embed_tokens.weight[:1_000].T

    return inference(forward, torch.randint(0, 8_000, (1, 32), device=DEVICE))


@model
def decoding_is_given_its_cache(is_fixed: bool) -> Step:
    """mutated-input: keys and values of eight layers come as arguments and are written to."""
    attentions = nn.ModuleList(Attention(256, 4) for _ in range(8)).to(DEVICE)
    feeds = layers(8, 256)
    caches = [random(2, 4, 128, 64) for _ in range(16)]
    at = torch.tensor([64], device=DEVICE)
    if is_fixed:
        for cache in caches:
            torch._dynamo.mark_static_address(cache)

    def forward(x: torch.Tensor, caches: list[torch.Tensor]) -> torch.Tensor:
        for n, (attention, feed) in enumerate(zip(attentions, feeds, strict=True)):
            query, key, value = attention.heads_of(x)
            caches[2 * n].index_copy_(2, at, key)
            caches[2 * n + 1].index_copy_(2, at, value)
            attention_output = nn.functional.scaled_dot_product_attention(
                query, caches[2 * n], caches[2 * n + 1]
            )
            x = feed(x + attention.outside(attention_output.transpose(1, 2).flatten(2)))
        return x

    return inference(forward, random(2, 1, 256), caches)


@model
def network_has_gates_on_the_cpu(is_fixed: bool) -> Step:
    """cpu-work: each layer has a gate that was left on the CPU."""
    all_layers = layers(8, 256)
    gates = [torch.rand((), device=DEVICE if is_fixed else "cpu") for _ in all_layers]

    def forward(x: torch.Tensor, gates: list[torch.Tensor]) -> torch.Tensor:
        for layer, gate in zip(all_layers, gates, strict=True):
            x = x + layer(x) * torch.sigmoid(gate)
        return x

    return inference(forward, random(64, 256), gates)


@model
def resnet_keeps_means_on_the_cpu(is_fixed: bool) -> Step:
    """copy-between-devices: the mean of each block is copied to the CPU."""
    own = vision("resnet18").eval()

    def forward(x: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        means = []
        x = own.maxpool(own.relu(own.bn1(own.conv1(x))))
        for stage in (own.layer1, own.layer2, own.layer3, own.layer4):
            for block in stage:
                x = block(x)
                mean = x.mean()
                means.append(mean if is_fixed else mean.cpu())
        return own.fc(x.mean((2, 3))), means

    return inference(forward, random(1, 3, 64, 64))


def _capped(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x / 8) * 8


def _operator(name: str, *tags: torch.Tag) -> Callable[[torch.Tensor], torch.Tensor]:
    """An operator of one's own that limits values."""
    custom_op = torch.library.custom_op(f"substantial::{name}", _capped, mutates_args=(), tags=tags)
    custom_op.register_fake(torch.empty_like)
    return custom_op


_UNSAFE: Final = _operator("capped_unsafe", torch.Tag.cudagraph_unsafe)
_SAFE: Final = _operator("capped")


@model
def network_calls_what_cannot_be_captured(is_fixed: bool) -> Step:
    """unsafe-operator: an operator in each of eight layers says that it cannot be captured."""
    all_layers = layers(8, 256)
    capped_op = _SAFE if is_fixed else _UNSAFE

    def forward(x: torch.Tensor) -> torch.Tensor:
        for layer in all_layers:
            x = x + capped_op(layer(x))
        return x

    return inference(forward, random(64, 256))


@model
def experts_take_rows_by_a_mask(is_fixed: bool) -> Step:
    """graph-break: each of six layers works on rows that a mask of booleans picks."""
    expert_layers, scores = layers(6, 256), layers(6, 256)

    def forward(x: torch.Tensor) -> torch.Tensor:
        for layer, score in zip(expert_layers, scores, strict=True):
            mask = score(x).mean(-1) > -1.0
            if is_fixed:
                x = torch.where(mask[:, None], x + layer(x), x)
            else:
                rows = torch.nonzero(mask).squeeze(1)
                x = x.index_add(0, rows, layer(x[rows]))
        return x

    return inference(forward, random(64, 256))


@model
def training_looks_for_nan_in_each_stage(is_fixed: bool) -> Step:
    """value-read: each of three stages is looked at; the optimizer is compiled too."""
    stages = nn.ModuleList(layers(3, 256) for _ in range(3))
    optimizer = torch.optim.Adam(stages.parameters(), lr=1e-4, capturable=DEVICE == "cuda")
    x, goal = random(64, 256), random(64, 256)

    def looked_at(x: torch.Tensor) -> torch.Tensor:
        if not is_fixed and torch.isnan(x).any().item():
            raise ArithmeticError("not a number")
        return x

    def losses(x: torch.Tensor) -> torch.Tensor:
        first, second, third = stages
        x = looked_at(first[2](first[1](first[0](x))))
        x = looked_at(second[2](second[1](second[0](x))))
        x = looked_at(third[2](third[1](third[0](x))))
        return (x - goal).square().mean()

    compiled_losses, update = graphed(losses), graphed(optimizer.step)

    def step() -> torch.Tensor:
        torch.compiler.cudagraph_mark_step_begin()
        loss: torch.Tensor = compiled_losses(x)
        loss.backward()
        update()
        optimizer.zero_grad()
        return loss.detach()

    return step
