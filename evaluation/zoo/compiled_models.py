"""Ten models with torch.compile, whose step times are divided into parts.

They need torch, torchvision, transformers and torch-geometric.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

import torch
from torch import nn

from evaluation.compile.steps import DEVICE, Step, graphed, inference, random

MODELS: Final[dict[str, Callable[[], Step]]] = {}
_TOKENS: Final = 8


def model(build: Callable[[], Step]) -> Callable[[], Step]:
    """Adds a model: a function that builds its step."""
    MODELS[build.__name__] = build
    return build


def vision(name: str) -> nn.Module:
    """A model of torchvision with random weights."""
    import torchvision

    vision_model: nn.Module = getattr(torchvision.models, name)(weights=None)
    return vision_model.to(DEVICE)


@model
def resnet50() -> Step:
    return inference(vision("resnet50").eval(), random(4, 3, 160, 160))


@model
def mobilenet_v3() -> Step:
    return inference(vision("mobilenet_v3_large").eval(), random(4, 3, 160, 160))


@model
def vit_b_16() -> Step:
    return inference(vision("vit_b_16").eval(), random(2, 3, 224, 224))


@model
def bert() -> Step:
    from transformers import BertConfig, BertModel

    sizes = {"hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024}
    own = BertModel(BertConfig(num_hidden_layers=4, **sizes)).to(DEVICE).eval()
    return inference(own, torch.randint(0, 30_000, (4, 64), device=DEVICE))


def generating(cache: Callable[[Any], Any], **options: Any) -> Step:
    """Greedy decoding of a small Llama by ``generate``, its forward compiled."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=256,
        intermediate_size=688,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        vocab_size=1000,
        max_position_embeddings=512,
    )
    model = LlamaForCausalLM(config).to(DEVICE).eval()
    model.forward = graphed(model.forward, **options)
    prompt = torch.randint(0, 1000, (1, 8), device=DEVICE)
    mask = torch.ones_like(prompt)
    model_cache = cache(config)

    def step() -> object:
        # The caches of all tokens of a step are outputs of graphs: they live until the next one.
        torch.compiler.cudagraph_mark_step_begin()
        with torch.no_grad():
            if model_cache is not None:
                model_cache.reset()
            return model.generate(
                prompt,
                attention_mask=mask,
                past_key_values=model_cache,
                max_new_tokens=_TOKENS,
                min_new_tokens=_TOKENS,
                do_sample=False,
                pad_token_id=0,
                disable_compile=True,
            )

    return step


@model
def generate_with_a_dynamic_cache() -> Step:
    return generating(lambda _: None, dynamic=True)


@model
def generate_with_a_static_cache() -> Step:
    from transformers import StaticCache

    def cache(config: Any) -> StaticCache:
        # Made here, it stays where it is; made in the compiled forward, it is an output of a graph.
        static_cache = StaticCache(config=config, max_cache_len=64)
        heads, size = config.num_key_value_heads, config.head_dim
        static_cache.early_initialization(1, heads, size, torch.float32, torch.device(DEVICE))
        return static_cache

    return generating(cache)


@model
def graph_convolution() -> Step:
    from torch_geometric.nn import GCNConv

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            sizes = (64, 128, 128, 16)
            self.layers = nn.ModuleList(
                GCNConv(inside, outside) for inside, outside in pairwise(sizes)
            )

        def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = torch.relu(layer(x, edges))
            return x

    edges = torch.randint(0, 2_000, (2, 20_000), device=DEVICE)
    return inference(Network().to(DEVICE), random(2_000, 64), edges)


def training(is_compiled: bool) -> Step:
    """A step of ResNet-18 with Adam, whose own step is compiled or not."""
    model = vision("resnet18").train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, capturable=DEVICE == "cuda")
    compiled_model, update = graphed(model), optimizer.step
    if is_compiled:
        update = graphed(optimizer.step)
    x, goal = random(8, 3, 96, 96), torch.randint(0, 1000, (8,), device=DEVICE)

    def step() -> None:
        torch.compiler.cudagraph_mark_step_begin()
        nn.functional.cross_entropy(compiled_model(x), goal).backward()
        update()
        # Gradients are outputs of the backward's graph: the next step's are others.
        optimizer.zero_grad()

    return step


@model
def training_with_an_eager_optimizer() -> Step:
    return training(is_compiled=False)


@model
def training_with_a_compiled_optimizer() -> Step:
    return training(is_compiled=True)


@model
def gpt2_that_prints() -> Step:
    from transformers import GPT2Config, GPT2Model

    own = GPT2Model(GPT2Config(n_embd=256, n_layer=4, n_head=4)).to(DEVICE).eval()

    def forward(tokens: torch.Tensor) -> torch.Tensor:
        hidden_states: torch.Tensor = own(tokens).last_hidden_state
        print(end="")
        return hidden_states @ own.wte.weight.T

    return inference(forward, torch.randint(0, 50_000, (1, 64), device=DEVICE))
