"""The zoo: workloads that predictions and mode ``parallel`` are scored on.

From launch-bound to compute-bound, training and inference, fp32 and bf16, one stream and several.
Weights are random; torchvision, timm and transformers give the architectures. Record them with::

    graphviz-dash bench predict --suite evaluation.zoo.workloads -o runs/predict-test
    python -m evaluation.parallel.record runs/parallel
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Final

import torch
from torch import nn
from torch.nn import functional

from evaluation.zoo.library_models import (
    HALF,
    Step,
    bert_infer,
    bert_train,
    convnext_train,
    deit_train,
    efficientnet_infer,
    gpt2_infer,
    gpt2_train,
    inference,
    mixer_infer,
    mobilenet_infer,
    resnet18_train,
    resnet50_infer,
    swin_infer,
    training,
    translation_train,
    video_infer,
    vit_infer,
    vit_tiny_infer,
)


class _GroupedDecoder(nn.Module):
    """A layer of a decoder with grouped queries, RMS norms, rotary places and a gated MLP."""

    def __init__(self, width: int, heads: int, groups: int, context: int) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.q = nn.Linear(width, width, bias=False)
        self.kv = nn.Linear(width, 2 * groups * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, 3 * width, bias=False)
        self.up = nn.Linear(width, 3 * width, bias=False)
        self.down = nn.Linear(3 * width, width, bias=False)
        self.first, self.second = nn.RMSNorm(width), nn.RMSNorm(width)
        self.register_buffer("cache", torch.zeros(2, 1, groups, context, self.size))

    def _turned(self, x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        left, right = x.chunk(2, -1)
        return torch.cat(
            (
                left * angles.cos() - right * angles.sin(),
                left * angles.sin() + right * angles.cos(),
            ),
            -1,
        )

    def forward(self, x: torch.Tensor, place: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        angles = (place * torch.arange(self.size // 2, device=x.device) * 0.01).to(x.dtype)
        inner = self.first(x)
        query = self._turned(self.q(inner).view(1, 1, self.heads, self.size), angles)
        key, value = self.kv(inner).view(1, 1, 2, self.groups, self.size).unbind(2)
        self.cache[0].index_copy_(2, place, self._turned(key, angles).transpose(1, 2))
        self.cache[1].index_copy_(2, place, value.transpose(1, 2))
        mixed = functional.scaled_dot_product_attention(
            query.transpose(1, 2), self.cache[0], self.cache[1], attn_mask=seen, enable_gqa=True
        )
        x = x + self.out(mixed.transpose(1, 2).reshape(1, 1, -1))
        inner = self.second(x)
        return x + self.down(functional.silu(self.gate(inner)) * self.up(inner))


def llama_decode() -> Step:
    """One token of a decoder of eight layers of 2,048 with grouped queries, bf16."""
    layers = nn.ModuleList(_GroupedDecoder(2048, 16, 4, 1024) for _ in range(8)).to("cuda", HALF)
    x = torch.randn(1, 1, 2048, device="cuda", dtype=HALF)
    place = torch.full((1,), 400, device="cuda")

    @torch.no_grad()
    def step() -> torch.Tensor:
        seen = torch.arange(1024, device="cuda").unsqueeze(0) <= place
        inner = x
        for layer in layers:
            inner = layer(inner, place, seen)
        return inner

    return step


def gru_cells_train() -> Step:
    """A GRU cell run 30 times, forward and backward, fp32, SGD."""
    cell = nn.GRUCell(96, 192).cuda()
    inputs = torch.randn(30, 32, 96, device="cuda")
    optimizer = torch.optim.SGD(cell.parameters(), lr=1e-3)

    def loss_of() -> torch.Tensor:
        state = torch.zeros(32, 192, device="cuda")
        for one in inputs:
            state = cell(one, state)
        return state.square().mean()

    return training(cell, loss_of, optimizer)


class _UNet(nn.Module):
    """Three levels down and up, with normalised convolutions and skips."""

    def __init__(self, width: int) -> None:
        super().__init__()
        widths = (width, 2 * width, 4 * width)
        self.enter = nn.Conv2d(4, width, 3, padding=1)
        self.down = nn.ModuleList(
            self._block(one, after)
            for one, after in zip(widths, (*widths[1:], widths[-1]), strict=True)
        )
        self.up = nn.ModuleList(
            self._block(2 * after, one)
            for one, after in zip(
                reversed(widths), reversed((*widths[1:], widths[-1])), strict=True
            )
        )
        self.leave = nn.Conv2d(width, 4, 3, padding=1)

    @staticmethod
    def _block(before: int, after: int) -> nn.Sequential:
        return nn.Sequential(
            nn.GroupNorm(8, before),
            nn.SiLU(),
            nn.Conv2d(before, after, 3, padding=1),
            nn.GroupNorm(8, after),
            nn.SiLU(),
            nn.Conv2d(after, after, 3, padding=1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.enter(x)
        kept = []
        for block in self.down:
            x = block(x)
            kept.append(x)
            x = functional.avg_pool2d(x, 2)
        for block in self.up:
            x = functional.interpolate(x, scale_factor=2.0)
            x = block(torch.cat((x, kept.pop()), 1))
        return self.leave(x)


def unet_infer() -> Step:
    """A UNet of 128 channels on a latent of 64 x 64, batch 2, bf16."""
    model = _UNet(128).to("cuda", HALF)
    return inference(model, torch.randn(2, 4, 64, 64, device="cuda", dtype=HALF))


def dlrm_train() -> Step:
    """Embedding bags of 16 tables, their products, and a small MLP, fp32, SGD."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tables = nn.ModuleList(nn.EmbeddingBag(20_000, 64, mode="sum") for _ in range(16))
            self.bottom = nn.Sequential(nn.Linear(13, 128), nn.ReLU(), nn.Linear(128, 64))
            self.top = nn.Sequential(nn.Linear(17 * 17 + 64, 256), nn.ReLU(), nn.Linear(256, 1))

        def forward(self, dense: torch.Tensor, sparse: torch.Tensor) -> torch.Tensor:
            low = self.bottom(dense)
            parts = [table(sparse[place]) for place, table in enumerate(self.tables)]
            rows = torch.stack((low, *parts), 1)
            products = torch.bmm(rows, rows.transpose(1, 2)).flatten(1)
            return self.top(torch.cat((low, products), 1))

    model = Model().cuda()
    dense = torch.randn(256, 13, device="cuda")
    sparse = torch.randint(20_000, (16, 256, 4), device="cuda")
    target = torch.rand(256, 1, device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    return training(
        model,
        lambda: functional.binary_cross_entropy_with_logits(model(dense, sparse), target),
        optimizer,
    )


def stencil() -> Step:
    """A wave on a grid of 1,024 x 1,024, ten steps of plain tensor operations."""
    grid = torch.randn(1024, 1024, device="cuda")
    before = grid.clone()

    @torch.no_grad()
    def step() -> None:
        now, old = grid, before
        for _ in range(10):
            around = now.roll(1, 0) + now.roll(-1, 0) + now.roll(1, 1) + now.roll(-1, 1)
            new = 2 * now - old + 0.1 * (around - 4 * now)
            now, old = new.clamp(-5, 5), now
        grid.copy_(now)
        before.copy_(old)

    return step


def wide_mlp_train() -> Step:
    """An MLP of four layers of 4,096 on 4,096 rows, bf16, AdamW fused: matrix products decide."""
    model = nn.Sequential(
        *(part for _ in range(4) for part in (nn.Linear(4096, 4096), nn.GELU()))
    ).to("cuda", HALF)
    rows = torch.randn(4096, 4096, device="cuda", dtype=HALF)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True, capturable=True)
    return training(model, lambda: model(rows).float().square().mean(), optimizer)


def long_attention_train() -> Step:
    """Two attention layers over 8,192 places, 12 heads of 64, bf16, forward and backward."""

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.out = nn.Linear(768, 2304), nn.Linear(768, 768)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            query, key, value = self.qkv(x).view(1, -1, 3, 12, 64).permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            return x + self.out(mixed.transpose(1, 2).reshape(x.shape))

    model = nn.Sequential(Layer(), Layer()).to("cuda", HALF)
    x = torch.randn(1, 8192, 768, device="cuda", dtype=HALF)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    return training(model, lambda: model(x).float().square().mean(), optimizer)


def ensemble_infer() -> Step:
    """Five small networks of their own sizes, each on its stream, their answers joined."""
    widths = (128, 192, 256, 384, 512)
    models = [
        nn.Sequential(
            nn.Linear(256, width), nn.ReLU(), *(nn.Linear(width, width) for _ in range(8)),
            nn.Linear(width, 32),
        ).cuda().eval()
        for width in widths
    ]  # fmt: skip
    streams = [torch.cuda.Stream() for _ in models]
    rows = torch.randn(128, 256, device="cuda")

    @torch.no_grad()
    def step() -> torch.Tensor:
        main = torch.cuda.current_stream()
        answers = []
        for model, stream in zip(models, streams, strict=True):
            stream.wait_stream(main)
            with torch.cuda.stream(stream):
                answers.append(model(rows))
        for stream, one in zip(streams, answers, strict=True):
            main.wait_stream(stream)
            one.record_stream(main)
        return torch.stack(answers).mean(0)

    return step


def adam_many_params() -> Step:
    """Adam, capturable, on 120 arrays with the foreach implementation; no model."""
    weights = [torch.randn(64, 8 * (1 + place % 40), device="cuda") for place in range(120)]
    for weight in weights:
        weight.grad = torch.randn_like(weight)
    optimizer = torch.optim.Adam(weights, lr=1e-4, foreach=True, capturable=True)

    def step() -> None:
        torch.nn.utils.clip_grad_norm_(weights, 1.0, foreach=True)
        optimizer.step()

    return step


def streamed_batches() -> Step:
    """A batch comes from pinned memory, goes through a small CNN, and its answer goes back."""
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(1024, 128),
    ).cuda().eval()  # fmt: skip
    there = [torch.randn(16, 3, 128, 128, pin_memory=True) for _ in range(4)]
    back = [torch.empty(16, 128, pin_memory=True) for _ in range(4)]

    @torch.no_grad()
    def step() -> None:
        for batch, answer in zip(there, back, strict=True):
            answer.copy_(model(batch.to("cuda", non_blocking=True)), non_blocking=True)

    return step


def dcgan_train() -> Step:
    """Generator and discriminator of a small DCGAN, both trained in one step, fp32, Adam."""

    def halves(*widths: int) -> list[nn.Module]:
        parts: list[nn.Module] = []
        for one, after in pairwise(widths):
            parts += [nn.Conv2d(one, after, 4, 2, 1), nn.BatchNorm2d(after), nn.LeakyReLU(0.2)]
        return parts

    def doubles(*widths: int) -> list[nn.Module]:
        parts: list[nn.Module] = []
        for one, after in pairwise(widths):
            parts += [nn.ConvTranspose2d(one, after, 4, 2, 1), nn.BatchNorm2d(after), nn.ReLU()]
        return parts

    critic = nn.Sequential(*halves(3, 32, 64, 128), nn.Flatten(), nn.Linear(128 * 64, 1)).cuda()
    maker = nn.Sequential(*doubles(64, 128, 64, 32), nn.Conv2d(32, 3, 3, padding=1)).cuda()
    noise = torch.randn(32, 64, 8, 8, device="cuda")
    real = torch.randn(32, 3, 64, 64, device="cuda")
    optimizers = [
        torch.optim.Adam(model.parameters(), lr=1e-4, foreach=True, capturable=True)
        for model in (critic, maker)
    ]

    def step() -> None:
        made = maker(noise)
        optimizers[0].zero_grad(set_to_none=True)
        (critic(made.detach()).mean() - critic(real).mean()).backward()
        optimizers[0].step()
        optimizers[1].zero_grad(set_to_none=True)
        (-critic(made).mean()).backward()
        optimizers[1].step()

    return step


def graph_network_train() -> Step:
    """Messages over 40,000 edges between 5,000 nodes, three rounds, fp32, Adam."""
    layers = nn.ModuleList(nn.Linear(128, 64) for _ in range(3)).cuda()
    nodes = torch.randn(5000, 64, device="cuda")
    source, target = torch.randint(5000, (2, 40_000), device="cuda")
    optimizer = torch.optim.Adam(layers.parameters(), lr=1e-3, capturable=True)

    def loss_of() -> torch.Tensor:
        x = nodes
        for layer in layers:
            heard = torch.zeros_like(x).index_add(0, target, x.index_select(0, source))
            x = functional.relu(layer(torch.cat((x, heard), 1)))
        return x.square().mean()

    return training(layers, loss_of, optimizer)


def actor_critic_train() -> Step:
    """Two small networks of a reinforcement learner and their losses, fp32, Adam."""
    sizes = (24, 128, 128)
    actor, critic = (
        nn.Sequential(
            nn.Linear(sizes[0], sizes[1]), nn.Tanh(), nn.Linear(sizes[1], sizes[2]), nn.Tanh(),
            nn.Linear(sizes[2], out),
        ).cuda()
        for out in (6, 1)
    )  # fmt: skip
    seen = torch.randn(512, 24, device="cuda")
    chosen = torch.randint(6, (512, 1), device="cuda")
    before, gain, worth = (torch.randn(512, 1, device="cuda") for _ in range(3))
    both = nn.ModuleList((actor, critic))
    optimizer = torch.optim.Adam(both.parameters(), lr=3e-4, capturable=True)

    def loss_of() -> torch.Tensor:
        now = functional.log_softmax(actor(seen), -1).gather(1, chosen)
        ratio = (now - before).exp()
        kept = torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain)
        return functional.mse_loss(critic(seen), worth) - kept.mean()

    return training(both, loss_of, optimizer)


SUITE: Final[dict[str, Callable[[], Step]]] = {
    "actor-critic-train": actor_critic_train,
    "adam-many-params": adam_many_params,
    "bert-infer": bert_infer,
    "bert-train": bert_train,
    "convnext-train": convnext_train,
    "dcgan-train": dcgan_train,
    "deit-train": deit_train,
    "dlrm-train": dlrm_train,
    "efficientnet-infer": efficientnet_infer,
    "ensemble-infer": ensemble_infer,
    "gpt2-infer": gpt2_infer,
    "gpt2-train": gpt2_train,
    "graph-network-train": graph_network_train,
    "gru-cells-train": gru_cells_train,
    "llama-decode": llama_decode,
    "long-attention-train": long_attention_train,
    "mixer-infer": mixer_infer,
    "mobilenet-infer": mobilenet_infer,
    "resnet18-train": resnet18_train,
    "resnet50-infer": resnet50_infer,
    "stencil": stencil,
    "streamed-batches": streamed_batches,
    "swin-infer": swin_infer,
    "translation-train": translation_train,
    "unet-infer": unet_infer,
    "video-infer": video_infer,
    "vit-infer": vit_infer,
    "vit-tiny-infer": vit_tiny_infer,
    "wide-mlp-train": wide_mlp_train,
}
