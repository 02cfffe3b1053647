"""Steps before and after a change that the advice names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, Final, NamedTuple

import torch
from torch import nn
from torch.nn import functional

Step = Callable[[], Any]

DEVICE: Final = "cuda"


class Case(NamedTuple):
    """A step, and the same step after a change."""

    name: str
    plain: Callable[[], Step]
    variant: Callable[[], Step]
    graph: bool = False
    """True if the advice needs a recorded graph."""


def _make_parameters(count: int, size: int) -> list[nn.Parameter]:
    parameters = [nn.Parameter(torch.randn(size, size, device=DEVICE)) for _ in range(count)]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    return parameters


def _build_adamw(**options: Any) -> Callable[[], Step]:
    return lambda: torch.optim.AdamW(_make_parameters(12, 1024), capturable=True, **options).step


def _build_amsgrad(**options: Any) -> Callable[[], Step]:
    return lambda: (
        torch.optim.Adam(_make_parameters(10, 1024), amsgrad=True, capturable=True, **options).step
    )


def _build_sgd(**options: Any) -> Callable[[], Step]:
    return lambda: (
        torch.optim.SGD(_make_parameters(16, 1024), lr=1e-3, momentum=0.9, **options).step
    )


def _build_average(foreach: bool) -> Callable[[], Step]:
    """An exponential moving average of the weights."""

    def make() -> Step:
        targets, sources = ([entry.detach() for entry in _make_parameters(24, 512)] for _ in "ab")

        def step() -> None:
            if foreach:
                torch._foreach_lerp_(targets, sources, 0.01)
                return
            for target, source in zip(targets, sources, strict=True):
                target.lerp_(source, 0.01)

        return step

    return make


def _build_mlp(
    dtype: torch.dtype = torch.float32, *, tf32: bool = False, width: int = 2048
) -> Callable[[], Step]:
    def make() -> Step:
        layers = [layer for _ in range(3) for layer in (nn.Linear(width, width), nn.ReLU())]
        model = nn.Sequential(*layers).to(DEVICE, dtype)
        batch = torch.randn(1024, width, device=DEVICE, dtype=dtype)

        def step() -> None:
            torch.backends.cuda.matmul.allow_tf32 = tf32
            _clear_gradients(model.parameters())
            model(batch).square().mean().backward()

        return step

    return make


def _clear_gradients(parameters: Iterable[nn.Parameter]) -> None:
    for parameter in parameters:
        parameter.grad = None


def build_projections(*, joint: bool = False) -> Step:
    """Build eight layers that project one input to queries, keys and values."""
    count = 1 if joint else 3
    layers = [
        nn.Linear(1024, 1024 * (3 // count), bias=False).to(DEVICE, torch.bfloat16)
        for _ in range(count * 8)
    ]
    batch = torch.randn(16, 1024, device=DEVICE, dtype=torch.bfloat16)

    @torch.no_grad()
    def step() -> torch.Tensor:
        state = batch
        for position in range(8):
            if joint:
                query, key, value = layers[position](state).chunk(3, -1)
            else:
                query, key, value = (
                    layer(state) for layer in layers[3 * position : 3 * position + 3]
                )
            state = query * torch.sigmoid(key) + value
        return state

    return step


def build_gates(*, joint: bool = False) -> Step:
    """Build eight layers whose gate and value are products of one input."""
    count = 1 if joint else 2
    layers = [
        nn.Linear(1536, 1536 * (2 // count), bias=False).to(DEVICE, torch.float16)
        for _ in range(count * 8)
    ]
    batch = torch.randn(32, 1536, device=DEVICE, dtype=torch.float16)

    @torch.no_grad()
    def step() -> torch.Tensor:
        state = batch
        for position in range(8):
            if joint:
                gate, value = layers[position](state).chunk(2, -1)
            else:
                gate, value = (layer(state) for layer in layers[2 * position : 2 * position + 2])
            state = functional.silu(gate) * value
        return state

    return step


def _build_convolutions(*, tf32: bool) -> Callable[[], Step]:
    def make() -> Step:
        layers = [
            layer for _ in range(4) for layer in (nn.Conv2d(256, 256, 3, padding=1), nn.ReLU())
        ]
        model = nn.Sequential(*layers).to(DEVICE, memory_format=torch.channels_last)
        batch = torch.randn(16, 256, 56, 56, device=DEVICE).to(memory_format=torch.channels_last)

        @torch.no_grad()
        def step() -> torch.Tensor:
            torch.backends.cudnn.allow_tf32 = tf32
            return model(batch)

        return step

    return make


def _build_bottlenecks(*, tf32: bool) -> Callable[[], Step]:
    """Blocks of three convolutions in the default layout, one of them strided."""

    def make() -> Step:
        layers: list[nn.Module] = []
        for _ in range(2):
            for sizes in ((256, 128, 1, 1), (128, 128, 3, 1), (128, 256, 1, 1)):
                layers += [_make_convolution(*sizes), nn.ReLU()]
        layers.append(_make_convolution(256, 512, 3, 2))
        model = nn.Sequential(*layers).to(DEVICE)
        batch = torch.randn(24, 256, 56, 56, device=DEVICE)

        @torch.no_grad()
        def step() -> torch.Tensor:
            torch.backends.cudnn.allow_tf32 = tf32
            return model(batch)

        return step

    return make


def _build_stages(*, tf32: bool) -> Callable[[], Step]:
    """Strided convolutions with channels last."""

    def make() -> Step:
        channels = (64, 128, 256, 512)
        layers = [_make_convolution(*sizes, 3, 2) for sizes in pairwise(channels)]
        model = nn.Sequential(*layers).to(DEVICE, memory_format=torch.channels_last)
        batch = torch.randn(32, 64, 112, 112, device=DEVICE)
        batch = batch.to(memory_format=torch.channels_last)

        @torch.no_grad()
        def step() -> torch.Tensor:
            torch.backends.cudnn.allow_tf32 = tf32
            return model(batch)

        return step

    return make


def _make_convolution(inputs: int, outputs: int, size: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)


def _build_batches(*, tf32: bool) -> Callable[[], Step]:
    """Batches of products, as of attention without a fused kernel."""

    def make() -> Step:
        query, key, value = (torch.randn(64, 1024, 128, device=DEVICE) for _ in range(3))

        @torch.no_grad()
        def step() -> torch.Tensor:
            torch.backends.cuda.matmul.allow_tf32 = tf32
            scores = torch.bmm(query, key.transpose(1, 2)).softmax(-1)
            return torch.bmm(scores, value)

        return step

    return make


def _build_casts(*, rounds: bool) -> Callable[[], Step]:
    def make() -> Step:
        batch, weight = (
            torch.randn(4096, 4096, device=DEVICE, dtype=torch.bfloat16) for _ in range(2)
        )

        @torch.no_grad()
        def step() -> torch.Tensor:
            state = torch.mm(batch, weight)
            if rounds:
                state = state.float().bfloat16()
            return torch.mm(state, weight)

        return step

    return make


def _compile(function: Callable[..., Any], inductor: bool) -> Callable[..., Any]:
    return torch.compile(function) if inductor else function


def _build_norm(inductor: bool) -> Callable[[], Step]:
    def make() -> Step:
        batch = torch.randn(4096, 4096, device=DEVICE, dtype=torch.bfloat16)
        weight = torch.ones(4096, device=DEVICE, dtype=torch.bfloat16)

        def normalize(batch: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            state = batch.float()
            scale = torch.rsqrt(state.pow(2).mean(-1, keepdim=True) + 1e-5)
            return (state * scale).to(batch.dtype) * weight

        function = _compile(normalize, inductor)
        return lambda: function(batch, weight)

    return make


def _build_gate(inductor: bool) -> Callable[[], Step]:
    def make() -> Step:
        tensors = [torch.randn(8192, 4096, device=DEVICE, dtype=torch.bfloat16) for _ in range(3)]

        def multiply_gate(
            gate: torch.Tensor, down: torch.Tensor, rest: torch.Tensor
        ) -> torch.Tensor:
            return functional.silu(gate) * down * 0.5 + rest

        function = _compile(multiply_gate, inductor)
        return lambda: function(*tensors)

    return make


def _build_tiny(inductor: bool) -> Callable[[], Step]:
    """Small kernels between two products, so that the GPU is busy before them."""

    def make() -> Step:
        weight = torch.randn(2048, 2048, device=DEVICE, dtype=torch.bfloat16)
        batch = torch.randn(64, 256, device=DEVICE)

        def apply_chain(state: torch.Tensor) -> torch.Tensor:
            for _ in range(6):
                state = torch.tanh(state * 1.1 + 0.1)
            return state

        function = _compile(apply_chain, inductor)

        @torch.no_grad()
        def step() -> tuple[torch.Tensor, ...]:
            first = torch.mm(weight, weight)
            state = function(batch)
            return first, state, torch.mm(first, weight)

        return step

    return make


def _build_decoder(inductor: bool) -> Callable[[], Step]:
    """One token through four layers with norms, rotary positions and a cache in plain PyTorch."""

    def make() -> Step:
        torch.manual_seed(0)
        width, heads, context, rows = 2048, 16, 1024, 8
        size = width // heads
        options: dict[str, Any] = {"device": DEVICE, "dtype": torch.bfloat16}
        shapes = {"qkv": 3 * width, "out": width, "gate": 6 * width}
        layers = [
            {
                name: torch.randn(columns, width, **options) * 0.02
                for name, columns in shapes.items()
            }
            | {"down": torch.randn(width, 3 * width, **options) * 0.02}
            for _ in range(4)
        ]
        caches = [
            [torch.zeros(rows, heads, context, size, **options) for _ in range(2)] for _ in layers
        ]
        weight = torch.ones(width, **options)
        cosine, sine = (torch.randn(1, size, **options) for _ in range(2))
        position = torch.full((1,), 700, device=DEVICE)
        batch = torch.randn(rows, width, **options)

        def normalize(state: torch.Tensor) -> torch.Tensor:
            wide = state.float()
            scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
            return (wide * scale).to(state.dtype) * weight

        def rotate(state: torch.Tensor) -> torch.Tensor:
            first, second = state.chunk(2, -1)
            return state * cosine + torch.cat((-second, first), -1) * sine

        def forward(state: torch.Tensor) -> torch.Tensor:
            for layer, cache in zip(layers, caches, strict=True):
                joint = functional.linear(normalize(state), layer["qkv"]).view(
                    rows, 3, heads, 1, size
                )
                query, key = rotate(joint[:, 0]), rotate(joint[:, 1])
                cache[0].index_copy_(2, position, key)
                cache[1].index_copy_(2, position, joint[:, 2])
                attention = functional.scaled_dot_product_attention(query, cache[0], cache[1])
                state = state + functional.linear(attention.reshape(rows, width), layer["out"])
                gate, value = functional.linear(normalize(state), layer["gate"]).chunk(2, -1)
                state = state + functional.linear(functional.silu(gate) * value, layer["down"])
            return state

        function = torch.no_grad()(_compile(forward, inductor))
        return lambda: function(batch)

    return make


def _build_transformer(tf32: bool) -> Callable[[], Step]:
    """A training step of two encoder layers in float32."""

    def make() -> Step:
        layer = nn.TransformerEncoderLayer(768, 12, 3072, dropout=0.0, batch_first=True)
        model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).to(DEVICE)
        batch = torch.randn(8, 256, 768, device=DEVICE)

        def step() -> None:
            torch.backends.cuda.matmul.allow_tf32 = tf32
            _clear_gradients(model.parameters())
            model(batch).square().mean().backward()

        return step

    return make


def build_products() -> Step:
    """Build large products that run close to the rates of the GPU."""
    pairs = [
        [torch.randn(size, size, device=DEVICE, dtype=dtype) for _ in range(2)]
        for dtype in (torch.bfloat16, torch.float16)
        for size in (4096, 6144, 8192)
    ]

    @torch.no_grad()
    def step() -> list[torch.Tensor]:
        return [torch.mm(*pair) for pair in pairs]

    return step


CASES: Final = (
    Case("adam-loop", _build_adamw(foreach=False), _build_adamw(fused=True)),
    Case("adam-foreach", _build_adamw(foreach=True), _build_adamw(fused=True)),
    Case("sgd-loop", _build_sgd(foreach=False), _build_sgd(fused=True)),
    Case("average-loop", _build_average(foreach=False), _build_average(foreach=True)),
    Case("tf32-mlp", _build_mlp(), _build_mlp(tf32=True)),
    Case("bf16-mlp", _build_mlp(), _build_mlp(torch.bfloat16)),
    Case("tf32-transformer", _build_transformer(tf32=False), _build_transformer(tf32=True)),
    Case("casts", _build_casts(rounds=True), _build_casts(rounds=False)),
    Case("merge-qkv", build_projections, lambda: build_projections(joint=True), graph=True),
    Case("rms-chain", _build_norm(inductor=False), _build_norm(inductor=True)),
    Case("gate-chain", _build_gate(inductor=False), _build_gate(inductor=True)),
    Case("tiny-chain", _build_tiny(inductor=False), _build_tiny(inductor=True)),
    Case("amsgrad", _build_amsgrad(foreach=True), _build_amsgrad(fused=True)),
    Case(
        "nesterov",
        _build_sgd(foreach=True, nesterov=True),
        _build_sgd(fused=True, nesterov=True),
    ),
    Case("tf32-convolutions", _build_convolutions(tf32=False), _build_convolutions(tf32=True)),
    Case("tf32-bottlenecks", _build_bottlenecks(tf32=False), _build_bottlenecks(tf32=True)),
    Case("tf32-stages", _build_stages(tf32=False), _build_stages(tf32=True)),
    Case("tf32-batches", _build_batches(tf32=False), _build_batches(tf32=True)),
    Case("merge-gates", build_gates, lambda: build_gates(joint=True), graph=True),
    Case("decoder", _build_decoder(inductor=False), _build_decoder(inductor=True)),
)
"""All cases. They were chosen before they were measured."""
