"""Steps that neither the terms of the predictions nor the width of their intervals have seen.

A suite like :mod:`evaluation.predict.workloads`, written and recorded after the calibration was
shipped, so that its errors and coverage are those of somebody else's step. Needs torchvision,
torchaudio, transformers and torch-geometric. Recorded, on a GPU, with::

    graphviz-dash bench predict --suite evaluation.predict.unseen -o runs/predict-unseen
    python -m evaluation.predict.trim_data runs/predict-unseen evaluation/data/predict/unseen
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch import nn
from torch.nn import functional

from evaluation.predict.library_models import HALF, Step, images, inference, training


def regnet_train() -> Step:
    """RegNetY-400MF, batch 32 of 96 x 96, fp32, SGD foreach."""
    import torchvision

    model = torchvision.models.regnet_y_400mf(num_classes=10).cuda()
    pictures, labels = images(32, 96), torch.randint(10, (32,), device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, foreach=True)
    return training(model, lambda: functional.cross_entropy(model(pictures), labels), optimizer)


def shufflenet_infer() -> Step:
    """ShuffleNetV2 x1.0, batch 4, fp16."""
    import torchvision

    model = torchvision.models.shufflenet_v2_x1_0().to("cuda", torch.float16)
    return inference(model, images(4, 224, torch.float16))


def densenet_infer() -> Step:
    """DenseNet-121, batch 2, bf16."""
    import torchvision

    model = torchvision.models.densenet121().to("cuda", HALF)
    return inference(model, images(2, 224, HALF))


def deeplab_infer() -> Step:
    """DeepLabV3 on MobileNetV3, one picture of 384 x 384, fp32."""
    import torchvision

    model = torchvision.models.segmentation.deeplabv3_mobilenet_v3_large(
        weights=None, weights_backbone=None
    ).cuda()
    return inference(model, images(1, 384))


def maxvit_infer() -> Step:
    """MaxViT-tiny, batch 2, bf16."""
    import torchvision

    model = torchvision.models.maxvit_t().to("cuda", HALF)
    return inference(model, images(2, 224, HALF))


def t5_infer() -> Step:
    """A T5 of 4 + 4 layers of 512: 64 tokens in, 16 out, fp16."""
    from transformers import T5Config, T5Model

    model = T5Model(T5Config(d_model=512, num_layers=4, num_heads=8, d_ff=1024))
    model.to("cuda", torch.float16).eval()
    tokens = torch.randint(30_000, (2, 64), device="cuda")
    outputs = torch.randint(30_000, (2, 16), device="cuda")

    @torch.no_grad()
    def step() -> object:
        return model(input_ids=tokens, decoder_input_ids=outputs, use_cache=False)

    return step


def mamba_infer() -> Step:
    """A Mamba of 2 layers of 256 over 24 tokens, written in operators of torch, fp32."""
    from transformers import MambaConfig, MambaModel

    model = MambaModel(MambaConfig(hidden_size=256, num_hidden_layers=2, vocab_size=1_000)).cuda()
    tokens = torch.randint(1_000, (1, 24), device="cuda")
    model.eval()

    @torch.no_grad()
    def step() -> object:
        return model(input_ids=tokens, use_cache=False)

    return step


def conformer_train() -> Step:
    """A Conformer of 4 layers of 144, 4 clips of 200 frames, fp32, Adam."""
    from torchaudio.models import Conformer

    model = Conformer(144, 4, 288, 4, 31).cuda()
    sound = torch.randn(4, 200, 144, device="cuda")
    lengths = torch.full((4,), 200, device="cuda")
    layers = model.conformer_layers

    def loss_of() -> torch.Tensor:
        # The model's own forward asks the GPU for the longest clip, which no capture allows.
        hidden = sound.transpose(0, 1)
        mask = torch.arange(200, device="cuda")[None] >= lengths[:, None]
        for layer in layers:
            hidden = layer(hidden, mask)
        return hidden.square().mean()

    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, capturable=True)
    return training(model, loss_of, optimizer)


def sage_train() -> Step:
    """GraphSAGE of three layers over 4,000 nodes and 32,000 edges, fp32, Adam fused."""
    from torch_geometric.nn import GraphSAGE

    model = GraphSAGE(64, 128, 3, 16).cuda()
    features = torch.randn(4_000, 64, device="cuda")
    edges = torch.randint(4_000, (2, 32_000), device="cuda")
    labels = torch.randint(16, (4_000,), device="cuda")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True, capturable=True)
    return training(
        model, lambda: functional.cross_entropy(model(features, edges), labels), optimizer
    )


def physics_train() -> Step:
    """A physics-informed network: derivatives of derivatives of an MLP at 4,096 points, fp32."""
    model = nn.Sequential(
        nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)
    ).cuda()
    points = torch.rand(4_096, 2, device="cuda", requires_grad=True)

    def loss_of() -> torch.Tensor:
        value = model(points)
        slope = torch.autograd.grad(value.sum(), points, create_graph=True)[0]
        bend = torch.autograd.grad(slope[:, 0].sum(), points, create_graph=True)[0][:, 0]
        return (slope[:, 1] - 0.1 * bend).square().mean()

    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True)
    return training(model, loss_of, optimizer)


def flow_train() -> Step:
    """Eight affine couplings over 1,024 points of 32 dimensions, fp32, Adam foreach."""
    nets = nn.ModuleList(
        nn.Sequential(nn.Linear(16, 128), nn.ReLU(), nn.Linear(128, 32)) for _ in range(8)
    ).cuda()
    data = torch.randn(1_024, 32, device="cuda")

    def loss_of() -> torch.Tensor:
        left, right = data.chunk(2, 1)
        logs = torch.zeros(1_024, device="cuda")
        for net in nets:
            scale, shift = net(left).chunk(2, 1)
            scale = torch.tanh(scale)
            left, right = right * scale.exp() + shift, left
            logs = logs + scale.sum(1)
        return (0.5 * (left.square().sum(1) + right.square().sum(1)) - logs).mean()

    optimizer = torch.optim.Adam(nets.parameters(), lr=1e-3, foreach=True, capturable=True)
    return training(nets, loss_of, optimizer)


def ode_infer() -> Step:
    """A neural ODE: ten steps of Runge-Kutta of an MLP over 512 states of 64, fp32."""
    model = nn.Sequential(nn.Linear(64, 256), nn.Softplus(), nn.Linear(256, 64)).cuda()
    state = torch.randn(512, 64, device="cuda")

    @torch.no_grad()
    def step() -> object:
        y, h = state, 0.1
        for _ in range(10):
            k1 = model(y)
            k2 = model(y + h / 2 * k1)
            k3 = model(y + h / 2 * k2)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + model(y + h * k3))
        return y

    return step


def nerf_train() -> Step:
    """A radiance field: 1,024 rays of 64 samples through an MLP of four layers, bf16, Adam."""
    width = 256
    model = nn.Sequential(
        nn.Linear(60, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
        nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4),
    ).to("cuda", HALF)  # fmt: skip
    points = torch.rand(1_024, 64, 3, device="cuda")
    colours = torch.rand(1_024, 3, device="cuda")
    waves = 2.0 ** torch.arange(10, device="cuda")

    def loss_of() -> torch.Tensor:
        phases = (points[..., None] * waves).flatten(-2)
        out = model(torch.cat([phases.sin(), phases.cos()], -1).to(HALF)).float()
        thickness = functional.softplus(out[..., 3]) / 64
        passed = torch.exp(-thickness.cumsum(1))
        seen = ((1 - torch.exp(-thickness)) * passed)[..., None] * out[..., :3].sigmoid()
        return functional.mse_loss(seen.sum(1), colours)

    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True)
    return training(model, loss_of, optimizer)


def two_towers_infer() -> Step:
    """Two encoders of four layers, one on a stream of its own, joined by a product, bf16."""

    def tower(width: int) -> nn.Module:
        layer = nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True, norm_first=True)
        encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        return encoder.to("cuda", HALF).train(mode=False)

    left, right = tower(512), tower(512)
    words = torch.randn(8, 77, 512, device="cuda", dtype=HALF)
    patches = torch.randn(8, 197, 512, device="cuda", dtype=HALF)
    beside = torch.cuda.Stream()

    @torch.no_grad()
    def step() -> object:
        here = torch.cuda.current_stream()
        beside.wait_stream(here)
        with torch.cuda.stream(beside):
            text = right(words).mean(1)
        picture = left(patches).mean(1)
        here.wait_stream(beside)
        return picture @ text.T

    return step


def clustering() -> Step:
    """Eight rounds of k-means: 65,536 points of 32 dimensions, 128 clusters, fp32."""
    points = torch.randn(65_536, 32, device="cuda")
    first = points[:128].clone()

    @torch.no_grad()
    def step() -> object:
        centres = first
        for _ in range(8):
            nearest = torch.cdist(points, centres).argmin(1)
            sums = torch.zeros_like(centres).index_add_(0, nearest, points)
            counts = torch.zeros(128, device="cuda").index_add_(
                0, nearest, torch.ones(65_536, device="cuda")
            )
            centres = sums / counts.clamp_min(1)[:, None]
        return centres

    return step


def spectral_infer() -> Step:
    """Four Fourier layers over 8 fields of 64 x 64 with 32 channels, fp32."""
    weights = [torch.randn(32, 32, 16, 9, device="cuda", dtype=torch.cfloat) / 32 for _ in range(4)]
    mixers = nn.ModuleList(nn.Conv2d(32, 32, 1) for _ in range(4)).cuda()
    fields = torch.randn(8, 32, 64, 64, device="cuda")

    @torch.no_grad()
    def step() -> object:
        out = fields
        for weight, mixer in zip(weights, mixers, strict=True):
            waves = torch.fft.rfft2(out)
            low = torch.einsum("bixy,ioxy->boxy", waves[:, :, :16, :9], weight)
            kept = torch.zeros_like(waves)
            kept[:, :, :16, :9] = low
            out = functional.gelu(torch.fft.irfft2(kept, s=(64, 64)) + mixer(out))
        return out

    return step


def distillation_train() -> Step:
    """A small network taught by a wide one in evaluation, batch 256, bf16, AdamW fused."""
    teacher = nn.Sequential(nn.Linear(512, 4_096), nn.GELU(), nn.Linear(4_096, 1_000))
    student = nn.Sequential(nn.Linear(512, 256), nn.GELU(), nn.Linear(256, 1_000))
    teacher.to("cuda", HALF)
    student.to("cuda", HALF)
    data = torch.randn(256, 512, device="cuda", dtype=HALF)

    def loss_of() -> torch.Tensor:
        with torch.no_grad():
            wanted = functional.log_softmax(teacher(data).float(), -1)
        told = functional.log_softmax(student(data).float(), -1)
        return functional.kl_div(told, wanted, log_target=True, reduction="batchmean")

    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-4, fused=True, capturable=True)
    return training(student, loss_of, optimizer)


SUITE: Final[dict[str, Callable[[], Step]]] = {
    "regnet-train": regnet_train,
    "shufflenet-infer": shufflenet_infer,
    "densenet-infer": densenet_infer,
    "deeplab-infer": deeplab_infer,
    "maxvit-infer": maxvit_infer,
    "t5-infer": t5_infer,
    "mamba-infer": mamba_infer,
    "conformer-train": conformer_train,
    "sage-train": sage_train,
    "physics-train": physics_train,
    "flow-train": flow_train,
    "ode-infer": ode_infer,
    "nerf-train": nerf_train,
    "two-towers-infer": two_towers_infer,
    "clustering": clustering,
    "spectral-infer": spectral_infer,
    "distillation-train": distillation_train,
}
