"""Ten models as one may write them and mended, which nobody had looked at while the predictions of
:mod:`graphviz_dash.analysis.compiled` were made: ``evaluation.compile.mends --suite fresh``.
"""

from __future__ import annotations

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
def convnext_looks_for_nan(mended: bool) -> Step:
    own = vision("convnext_tiny").eval()

    def forward(x: torch.Tensor) -> torch.Tensor:
        y = own.features(x)
        if mended or torch.isnan(y).any():
            y = torch.nan_to_num(y)
        return own.classifier(own.avgpool(y))

    return inference(forward, random(2, 3, 192, 192))


@model
def regnet_prints_amid_its_stages(mended: bool) -> Step:
    own = vision("regnet_y_400mf").eval()

    def forward(x: torch.Tensor) -> torch.Tensor:
        x = own.trunk_output.block2(own.trunk_output.block1(own.stem(x)))
        if not mended:
            print(end="")
        x = own.trunk_output.block4(own.trunk_output.block3(x))
        return own.fc(own.avgpool(x).flatten(1))

    return inference(forward, random(4, 3, 160, 160))


@model
def distilbert_moves_its_mask(mended: bool) -> Step:
    from transformers import DistilBertConfig, DistilBertModel

    own = DistilBertModel(DistilBertConfig(dim=256, n_heads=4, hidden_dim=1024, n_layers=4))
    own.to(DEVICE).eval()

    def forward(tokens: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = own(tokens).last_hidden_state
        return (hidden * weight.to(DEVICE)).sum(1)

    weight = torch.ones(4, 64, 1)
    tokens = torch.randint(0, 30_000, (4, 64), device=DEVICE)
    return inference(forward, tokens, weight.to(DEVICE) if mended else weight)


@model
def llama_has_its_temperature_on_the_cpu(mended: bool) -> Step:
    from transformers import LlamaConfig, LlamaModel

    sizes = {"hidden_size": 256, "intermediate_size": 688, "num_attention_heads": 4}
    own = LlamaModel(LlamaConfig(num_hidden_layers=4, vocab_size=4000, **sizes)).to(DEVICE).eval()
    temperature = torch.tensor(0.3, device=DEVICE if mended else "cpu")

    def forward(tokens: torch.Tensor, temperature: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = own(tokens, use_cache=False).last_hidden_state
        logits = hidden @ own.embed_tokens.weight.T
        return torch.softmax(logits / temperature.exp(), -1)

    return inference(forward, torch.randint(0, 4000, (1, 96), device=DEVICE), temperature)


@model
def albert_keeps_its_pooling_uncompiled(mended: bool) -> Step:
    from transformers import AlbertConfig, AlbertModel

    sizes = {"hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024}
    own = AlbertModel(AlbertConfig(num_hidden_layers=4, **sizes)).to(DEVICE).eval()

    def pool(hidden: torch.Tensor) -> torch.Tensor:
        weight = torch.softmax(hidden.mean(-1, keepdim=True), 1)
        return torch.tanh((hidden * weight).sum(1))

    pooled = pool if mended else torch.compiler.disable(pool)
    head = nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 8)).to(DEVICE)

    def forward(tokens: torch.Tensor) -> torch.Tensor:
        return head(pooled(own(tokens).last_hidden_state))

    return inference(forward, torch.randint(0, 30_000, (2, 64), device=DEVICE))


@model
def vit_counts_into_an_argument(mended: bool) -> Step:
    from transformers import ViTConfig, ViTModel

    sizes = {"hidden_size": 192, "num_attention_heads": 3, "intermediate_size": 768}
    own = ViTModel(ViTConfig(num_hidden_layers=6, **sizes)).to(DEVICE).eval()

    def forward(x: torch.Tensor, seen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden: torch.Tensor = own(x).last_hidden_state[:, 0]
        if mended:
            seen = torch.maximum(seen, hidden.abs().amax(0))
        else:
            seen.copy_(torch.maximum(seen, hidden.abs().amax(0)))
        return hidden / (1 + seen), seen

    return inference(forward, random(2, 3, 224, 224), torch.zeros(192, device=DEVICE))


@model
def tagger_takes_the_words_that_count(mended: bool) -> Step:
    layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, dropout=0.0)
    own = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).to(DEVICE).eval()
    head = nn.Linear(256, 32).to(DEVICE)

    def forward(x: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        scores = torch.log_softmax(head(own(x)), -1)
        if mended:
            kept = torch.where(counts[..., None], scores, 0)
            return kept.sum((0, 1)) / counts.sum()
        return scores[counts].mean(0)

    counts = torch.arange(64, device=DEVICE).expand(8, 64) < 40
    return inference(forward, random(8, 64, 256), counts)


@model
def sage_stops_when_it_settles(mended: bool) -> Step:
    from torch_geometric.nn import SAGEConv

    layers = nn.ModuleList(SAGEConv(64, 64) for _ in range(4)).to(DEVICE)

    def forward(x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        for layer in layers:
            y = torch.tanh(layer(x, edges))
            change = (y - x).abs().mean()
            if mended:
                x = torch.where(change < 1e-9, x, y)
            elif change < 1e-9:
                break
            else:
                x = y
        return x

    return inference(
        forward, random(2_000, 64), torch.randint(0, 2_000, (2, 16_000), device=DEVICE)
    )


@model
def retrieval_is_given_its_memory(mended: bool) -> Step:
    memory = random(150_000, 128)
    own = nn.Sequential(nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 128)).to(DEVICE)
    if mended:
        torch._dynamo.mark_static_address(memory)

    def forward(x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        near = own(x) @ memory[:4096].T
        return own(torch.softmax(near, -1) @ memory[:4096])

    return inference(forward, random(64, 128), memory)


@model
def training_logs_the_norm_of_its_state(mended: bool) -> Step:
    body = nn.Sequential(*(part for _ in range(4) for part in (nn.Linear(384, 384), nn.SiLU())))
    head = nn.Sequential(*(part for _ in range(4) for part in (nn.Linear(384, 384), nn.SiLU())))
    both = nn.ModuleList([body, head]).to(DEVICE)
    x, goal = random(128, 384), random(128, 384)

    def losses(x: torch.Tensor) -> tuple[torch.Tensor, object]:
        state = body(x)
        norm = state.detach().norm()
        told = norm if mended else norm.item()
        return (head(state) - goal).square().mean(), told

    compiled = graphed(losses)

    def step() -> None:
        torch.compiler.cudagraph_mark_step_begin()
        loss, _ = compiled(x)
        loss.backward()
        both.zero_grad()

    return step
