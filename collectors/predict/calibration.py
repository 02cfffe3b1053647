"""Calibration workloads: short programs with one kind of work each.

They cover the differences between eager traces and replays. No model used for evaluation is among
them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch import nn
from torch.nn import functional

from collectors.workloads import Factory, Step

_MIB: Final = 1 << 20


def _build_repeated(times: int, call: Callable[[], object]) -> Step:
    @torch.no_grad()
    def step() -> None:
        for _ in range(times):
            call()

    return step


def _build_pointwise(elements: int, times: int) -> Step:
    data = torch.ones(elements, device="cuda")
    return _build_repeated(times, lambda: data.mul_(0.999))


def pointwise_tiny() -> Step:
    """200 kernels of 1,024 elements, dominated by gaps."""
    return _build_pointwise(1024, 200)


def pointwise_cached() -> Step:
    """80 kernels over 16 MiB that fit the L2 cache."""
    return _build_pointwise(4 * _MIB, 80)


def pointwise_streamed() -> Step:
    """24 kernels over 512 MiB of device memory."""
    return _build_pointwise(128 * _MIB, 24)


def pointwise_mixed() -> Step:
    """Kernels of many lengths, each on separate data."""
    parts = [torch.ones(1 << size, device="cuda") for size in range(10, 26)]

    def call() -> None:
        for part in parts:
            part.mul_(0.999).add_(1e-3)

    return _build_repeated(3, call)


def _build_products(size: int, times: int, kind: torch.dtype) -> Step:
    left = torch.randn(size, size, device="cuda", dtype=kind) / size**0.5
    right = torch.randn(size, size, device="cuda", dtype=kind) / size**0.5
    out = torch.empty_like(left)
    return _build_repeated(times, lambda: torch.mm(left, right, out=out))


def products_small() -> Step:
    """100 matrix products of 256 in fp32."""
    return _build_products(256, 100, torch.float32)


def products_half() -> Step:
    """80 matrix products of 1,024 in bf16."""
    return _build_products(1024, 80, torch.bfloat16)


def products_medium() -> Step:
    """30 matrix products of 2,048 in fp16."""
    return _build_products(2048, 30, torch.float16)


def products_large() -> Step:
    """6 matrix products of 8,192 in bf16, limited by power."""
    return _build_products(8192, 6, torch.bfloat16)


def rows_half() -> Step:
    """Products of one row with matrices in bf16 and activations, as in a decoder."""
    up = [torch.randn(1536, 6144, device="cuda", dtype=torch.bfloat16) / 40 for _ in range(12)]
    down = [torch.randn(6144, 1536, device="cuda", dtype=torch.bfloat16) / 80 for _ in range(12)]
    row = torch.randn(1, 1536, device="cuda", dtype=torch.bfloat16)

    def call() -> None:
        x = row
        for wide, narrow in zip(up, down, strict=True):
            x = functional.silu(x @ wide) @ narrow

    return _build_repeated(2, call)


def linear_bias_half() -> Step:
    """Linear layers with bias and GELU on 48 rows in bf16."""
    layers = nn.Sequential(
        *(part for _ in range(20) for part in (nn.Linear(512, 512), nn.GELU()))
    ).to("cuda", torch.bfloat16)
    rows = torch.randn(48, 512, device="cuda", dtype=torch.bfloat16)
    return _build_repeated(1, lambda: layers(rows))


def norms() -> Step:
    """Normalizations and softmax over rows of several lengths."""
    rows = [torch.randn(512, length, device="cuda") for length in (128, 512, 2048, 8192)]
    weights = [torch.ones(part.shape[1], device="cuda") for part in rows]

    def call() -> None:
        for part, weight in zip(rows, weights, strict=True):
            functional.layer_norm(part, part.shape[1:], weight, weight)
            functional.softmax(part, dim=-1)

    return _build_repeated(8, call)


def reductions() -> Step:
    """Sums over arrays; large ones initialize semaphores first."""
    parts = [torch.randn(1 << size, device="cuda") for size in (12, 16, 20, 22)]
    out = torch.empty((), device="cuda")

    def call() -> None:
        for part in parts:
            torch.sum(part, 0, out=out)
            part.amax()

    return _build_repeated(10, call)


def copies() -> Step:
    """Device copies of many sizes, between small kernels."""
    parts = [torch.ones(1 << size, device="cuda") for size in (8, 12, 16, 20, 22)]
    others = [torch.empty_like(part) for part in parts]
    small = torch.ones(1024, device="cuda")

    def call() -> None:
        for part, other in zip(parts, others, strict=True):
            other.copy_(part)
            small.add_(1)

    return _build_repeated(10, call)


def pinned_copies() -> Step:
    """Copies from and to pinned host memory, around a few kernels."""
    sizes = (10, 14, 18, 20)
    host = [torch.ones(1 << size, pin_memory=True) for size in sizes]
    device = [torch.empty(1 << size, device="cuda") for size in sizes]

    def call() -> None:
        for host_part, device_part in zip(host, device, strict=True):
            device_part.copy_(host_part, non_blocking=True)
            device_part.mul_(0.999)
            host_part.copy_(device_part, non_blocking=True)

    return _build_repeated(4, call)


def pinned_batches() -> Step:
    """Larger copies from pinned memory, each followed by some work."""
    host = [torch.ones(3 << 18, pin_memory=True) for _ in range(6)]
    device = torch.empty(3 << 18, device="cuda")
    result = torch.empty(3 << 18, device="cuda")

    def call() -> None:
        for host_part in host:
            device.copy_(host_part, non_blocking=True)
            torch.tanh(device, out=result)
            result.mul_(0.5)

    return _build_repeated(2, call)


def moved_rows() -> Step:
    """Copies between parts of an array, next to gathers from another."""
    rows = torch.randn(4096, 256, device="cuda")
    index = torch.randint(4096, (1024,), device="cuda")
    out = torch.empty(1024, 256, device="cuda")

    def call() -> None:
        torch.index_select(rows, 0, index, out=out)
        rows[:1024].copy_(out)
        rows[1024:2048].copy_(rows[2048:3072])

    return _build_repeated(20, call)


def sorting() -> Step:
    """Sorting, selecting and scattering, with several kernels and sets per operator."""
    values = torch.randn(1 << 18, device="cuda")
    index = torch.randint(1 << 16, (1 << 18,), device="cuda")
    total = torch.zeros(1 << 16, device="cuda")

    def call() -> None:
        torch.sort(values)
        torch.topk(values, 64)
        total.index_add_(0, index, values)
        torch.cumsum(values, 0)

    return _build_repeated(4, call)


def _build_forked(streams: int, branch: Callable[[int], object], times: int) -> Step:
    others = [torch.cuda.Stream() for _ in range(streams)]

    @torch.no_grad()
    def step() -> None:
        main = torch.cuda.current_stream()
        for _ in range(times):
            for index, stream in enumerate(others):
                stream.wait_stream(main)
                with torch.cuda.stream(stream):
                    branch(index)
            for stream in others:
                main.wait_stream(stream)

    return step


def forked_tiny() -> Step:
    """Four streams of ten tiny kernels each, forked and joined five times."""
    parts = [torch.ones(2048, device="cuda") for _ in range(4)]

    def branch(index: int) -> None:
        for _ in range(10):
            parts[index].mul_(0.999)

    return _build_forked(4, branch, 5)


def forked_products() -> Step:
    """Two streams: products on one and long memory-bound kernels on the other."""
    left = torch.randn(1024, 1024, device="cuda") / 32
    out = torch.empty_like(left)
    data = torch.ones(16 * _MIB, device="cuda")

    def branch(index: int) -> None:
        for _ in range(8):
            if index:
                data.mul_(0.999)
            else:
                torch.mm(left, left, out=out)

    return _build_forked(2, branch, 3)


def forked_crowd() -> Step:
    """Three streams of products that oversubscribe the GPU."""
    sizes = (384, 768, 1024)
    parts = [torch.randn(size, size, device="cuda") / size**0.5 for size in sizes]
    outs = [torch.empty_like(part) for part in parts]

    def branch(index: int) -> None:
        for _ in range(6):
            torch.mm(parts[index], parts[index], out=outs[index])
            outs[index].tanh_()

    return _build_forked(3, branch, 2)


def dropouts() -> Step:
    """Random numbers, which need an offset in their sequence per replay."""
    rows = torch.randn(256, 1024, device="cuda")

    def call() -> None:
        functional.dropout(rows, 0.2).mul_(0.5)

    return _build_repeated(40, call)


def random_fields() -> Step:
    """Random fields drawn in each step, smoothed and summed."""
    field = torch.empty(512, 512, device="cuda")

    def call() -> None:
        field.normal_()
        field.clamp_(-1, 1).sum()
        torch.rand_like(field).mul_(0.1).add_(field)

    return _build_repeated(10, call)


def recurrent() -> Step:
    """A three-layer cuDNN recurrent network, which uses its own streams."""
    model = nn.RNN(192, 192, 3, nonlinearity="tanh").cuda()
    inputs = torch.randn(32, 8, 192, device="cuda")
    return _build_repeated(1, lambda: model(inputs))


def recurrent_wide() -> Step:
    """A two-layer cuDNN LSTM."""
    model = nn.LSTM(128, 256, 2).cuda()
    inputs = torch.randn(48, 4, 128, device="cuda")
    return _build_repeated(1, lambda: model(inputs))


def split_products() -> Step:
    """Products with a long inner dimension: set, scale, multiply in parts, add."""
    left = torch.randn(64, 2048, device="cuda")
    layers = nn.Linear(2048, 96, device="cuda")
    small = nn.Linear(64, 64, device="cuda")
    rows = torch.randn(64, 64, device="cuda")

    def call() -> None:
        layers(left)
        small(rows).relu_()

    return _build_repeated(16, call)


def convolutions() -> Step:
    """Two-dimensional convolutions with normalization, forward and backward, fp32."""
    layers = nn.Sequential(
        *(
            part
            for _ in range(6)
            for part in (nn.Conv2d(48, 48, 3, padding=1), nn.GroupNorm(8, 48), nn.SiLU())
        )
    ).cuda()
    images = torch.randn(8, 48, 40, 40, device="cuda")

    def step() -> None:
        layers.zero_grad(set_to_none=True)
        layers(images).square().mean().backward()

    return step


def convolutions_half() -> Step:
    """Grouped and pointwise convolutions, bf16, channels last, forward only."""
    layers = nn.Sequential(
        *(
            part
            for _ in range(10)
            for part in (
                nn.Conv2d(96, 96, 5, padding=2, groups=96),
                nn.Conv2d(96, 96, 1),
                nn.BatchNorm2d(96),
                nn.ReLU(),
            )
        )
    )
    layers.eval().to("cuda", torch.bfloat16, memory_format=torch.channels_last)
    images = torch.randn(4, 96, 32, 32, device="cuda", dtype=torch.bfloat16)
    images = images.to(memory_format=torch.channels_last)
    return _build_repeated(1, lambda: layers(images))


def attention() -> Step:
    """Attention over 1,024 positions in bf16, forward and backward, six times."""
    shape = (2, 8, 1024, 64)
    parts = [
        torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        for _ in range(3)
    ]

    def step() -> None:
        x = parts[0]
        for _ in range(6):
            x = functional.scaled_dot_product_attention(x, parts[1], parts[2], is_causal=True)
        for part in parts:
            part.grad = None
        x.float().square().mean().backward()

    return step


def sustained_products() -> Step:
    """Products of 4,096 in bf16, each followed by an activation."""
    left = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16) / 64
    right = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16) / 64
    return _build_repeated(16, lambda: functional.gelu(left @ right))


def sustained_attention() -> Step:
    """Attention over 4,096 positions in fp16, forward only."""
    parts = [torch.randn(4, 16, 4096, 64, device="cuda", dtype=torch.float16) for _ in range(3)]
    return _build_repeated(6, lambda: functional.scaled_dot_product_attention(*parts))


def sustained_convolutions() -> Step:
    """Convolutions of 256 channels in bf16, channels last, forward only."""
    layers = nn.Sequential(
        *(part for _ in range(6) for part in (nn.Conv2d(256, 256, 3, padding=1), nn.SiLU()))
    )
    layers.eval().to("cuda", torch.bfloat16, memory_format=torch.channels_last)
    images = torch.randn(32, 256, 56, 56, device="cuda", dtype=torch.bfloat16)
    images = images.to(memory_format=torch.channels_last)
    return _build_repeated(1, lambda: layers(images))


def sustained_single() -> Step:
    """Products of 2,048 in fp32, without tensor cores."""
    return _build_products(2048, 12, torch.float32)


def rows_single() -> Step:
    """Products of four rows with matrices in fp32, each after a normalization."""
    weights = [torch.randn(1024, 1024, device="cuda") / 32 for _ in range(24)]
    row = torch.randn(4, 1024, device="cuda")

    def call() -> None:
        x = row
        for weight in weights:
            x = functional.rms_norm(x, (1024,)) @ weight

    return _build_repeated(1, call)


def perceptron() -> Step:
    """A training step of seven layers of width 320 in fp32 with SGD and momentum."""
    layers = nn.Sequential(
        *(part for _ in range(7) for part in (nn.Linear(320, 320), nn.Tanh()))
    ).cuda()
    rows = torch.randn(96, 320, device="cuda")
    optimizer = torch.optim.SGD(layers.parameters(), lr=1e-3, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        layers(rows).square().mean().backward()
        optimizer.step()

    return step


def optimizer_loop() -> Step:
    """RMSprop over 60 arrays one by one, with many short kernels."""
    weights = [torch.randn(1 << (10 + number % 8), device="cuda") for number in range(60)]
    for weight in weights:
        weight.grad = torch.randn_like(weight)
    optimizer = torch.optim.RMSprop(weights, lr=1e-4, foreach=False, capturable=True)

    def step() -> None:
        optimizer.step()

    return step


SUITE: Final[dict[str, Factory]] = {
    "pointwise-tiny": pointwise_tiny,
    "pointwise-cached": pointwise_cached,
    "pointwise-streamed": pointwise_streamed,
    "pointwise-mixed": pointwise_mixed,
    "products-small": products_small,
    "products-half": products_half,
    "products-medium": products_medium,
    "products-large": products_large,
    "rows-half": rows_half,
    "linear-bias-half": linear_bias_half,
    "norms": norms,
    "reductions": reductions,
    "copies": copies,
    "pinned-copies": pinned_copies,
    "pinned-batches": pinned_batches,
    "moved-rows": moved_rows,
    "sorting": sorting,
    "forked-tiny": forked_tiny,
    "forked-products": forked_products,
    "forked-crowd": forked_crowd,
    "dropouts": dropouts,
    "random-fields": random_fields,
    "recurrent": recurrent,
    "recurrent-wide": recurrent_wide,
    "split-products": split_products,
    "convolutions": convolutions,
    "convolutions-half": convolutions_half,
    "attention": attention,
    "sustained-products": sustained_products,
    "sustained-attention": sustained_attention,
    "sustained-convolutions": sustained_convolutions,
    "sustained-single": sustained_single,
    "rows-single": rows_single,
    "perceptron": perceptron,
    "optimizer-loop": optimizer_loop,
}
