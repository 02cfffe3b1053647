"""Steps of architectures that libraries give: torchvision, timm, transformers and torch.nn.

Weights are random. They are part of :mod:`evaluation.zoo.workloads`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import nn
from torch.nn import functional

HALF: Final = torch.bfloat16
Step = Callable[[], object]


def inference(model: nn.Module, *inputs: torch.Tensor) -> Step:
    """A step that applies ``model`` to ``inputs`` without gradients."""
    model.eval()

    @torch.no_grad()
    def step() -> object:
        return model(*inputs)

    return step


def training(
    model: nn.Module, loss_of: Callable[[], torch.Tensor], optimizer: torch.optim.Optimizer
) -> Step:
    """A step of training: gradients of the loss, and the optimizer."""
    model.train()

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss_of().backward()
        optimizer.step()

    return step


def images(batch: int, size: int, kind: torch.dtype = torch.float32) -> torch.Tensor:
    """Random images, (batch, 3, size, size)."""
    return torch.randn(batch, 3, size, size, device="cuda", dtype=kind)


def resnet18_train() -> Step:
    """ResNet-18, batch 16 of 128 x 128, fp32, SGD."""
    import torchvision

    with torch.device("cuda"):
        model = torchvision.models.resnet18(num_classes=100)
    pictures = images(16, 128)
    labels = torch.randint(100, (16,), device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    return training(model, lambda: functional.cross_entropy(model(pictures), labels), optimizer)


def resnet50_infer() -> Step:
    """ResNet-50, batch 1, bf16, channels last."""
    import torchvision

    model = torchvision.models.resnet50()
    model.to("cuda", HALF, memory_format=torch.channels_last)
    return inference(model, images(1, 224, HALF).to(memory_format=torch.channels_last))


def mobilenet_infer() -> Step:
    """MobileNetV3-large, batch 8, fp32."""
    import torchvision

    with torch.device("cuda"):
        model = torchvision.models.mobilenet_v3_large()
    return inference(model, images(8, 224))


def convnext_train() -> Step:
    """ConvNeXt-tiny, batch 16, bf16, AdamW."""
    import torchvision

    model = torchvision.models.convnext_tiny(num_classes=100).to("cuda", HALF)
    pictures = images(16, 160, HALF)
    labels = torch.randint(100, (16,), device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True, capturable=True)
    return training(
        model, lambda: functional.cross_entropy(model(pictures).float(), labels), optimizer
    )


def vit_infer() -> Step:
    """ViT-base/16, batch 32, bf16."""
    import timm

    model = timm.create_model("vit_base_patch16_224", pretrained=False).to("cuda", HALF)
    return inference(model, images(32, 224, HALF))


def vit_tiny_infer() -> Step:
    """ViT-tiny/16, batch 1, fp32."""
    import timm

    model = timm.create_model("vit_tiny_patch16_224", pretrained=False).cuda()
    return inference(model, images(1, 224))


def _bert(hidden: int, layers: int, heads: int, kind: torch.dtype) -> Any:
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * hidden,
        attn_implementation="eager",
    )
    return BertForMaskedLM(config).to("cuda", kind)


def _unmasked(batch: int, length: int, kind: torch.dtype) -> torch.Tensor:
    """A mask of four dimensions, which the models take as it is: making one reads GPU data."""
    return torch.zeros(batch, 1, length, length, device="cuda", dtype=kind)


def bert_infer() -> Step:
    """BERT-base, one sentence of 128 tokens, fp16."""
    model = _bert(768, 12, 12, torch.float16)
    tokens = torch.randint(30_000, (1, 128), device="cuda")
    return inference(model, tokens, _unmasked(1, 128, torch.float16))


def bert_train() -> Step:
    """A BERT of four layers of 512, 8 sentences of 128 tokens, fp32, AdamW foreach."""
    model = _bert(512, 4, 8, torch.float32)
    tokens = torch.randint(30_000, (8, 128), device="cuda")
    mask = _unmasked(8, 128, torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True, capturable=True)
    return training(model, lambda: model(tokens, mask, labels=tokens).loss, optimizer)


def _gpt2(layers: int, kind: torch.dtype) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=layers, attn_implementation="eager", use_cache=False)
    return GPT2LMHeadModel(config).to("cuda", kind)


def _gpt2_inputs(batch: int, length: int, kind: torch.dtype) -> dict[str, torch.Tensor]:
    return {
        "input_ids": torch.randint(50_000, (batch, length), device="cuda"),
        "attention_mask": _unmasked(batch, length, kind),
        "position_ids": torch.arange(length, device="cuda").unsqueeze(0),
    }


def gpt2_infer() -> Step:
    """GPT-2 small, a prompt of 64 tokens, fp32."""
    model = _gpt2(12, torch.float32).eval()
    inputs = _gpt2_inputs(1, 64, torch.float32)

    @torch.no_grad()
    def step() -> object:
        return model(**inputs)

    return step


def gpt2_train() -> Step:
    """GPT-2 of six layers, 4 texts of 256 tokens, bf16, AdamW fused."""
    model = _gpt2(6, HALF)
    inputs = _gpt2_inputs(4, 256, HALF)
    labels = inputs["input_ids"]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True, capturable=True)
    return training(model, lambda: model(**inputs, labels=labels).loss, optimizer)


def swin_infer() -> Step:
    """Swin-tiny, batch 4, fp32."""
    import torchvision

    with torch.device("cuda"):
        model = torchvision.models.swin_t()
    return inference(model, images(4, 224))


def mixer_infer() -> Step:
    """MLP-Mixer-small/16, batch 16, fp16."""
    import timm

    model = timm.create_model("mixer_s16_224", pretrained=False).to("cuda", torch.float16)
    return inference(model, images(16, 224, torch.float16))


def deit_train() -> Step:
    """DeiT-tiny, batch 64, bf16, SGD."""
    import timm

    model = timm.create_model("deit_tiny_patch16_224", pretrained=False).to("cuda", HALF)
    pictures = images(64, 224, HALF)
    labels = torch.randint(1000, (64,), device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    return training(
        model, lambda: functional.cross_entropy(model(pictures).float(), labels), optimizer
    )


def efficientnet_infer() -> Step:
    """EfficientNet-B0, batch 1, fp16, channels last."""
    import torchvision

    model = torchvision.models.efficientnet_b0()
    model.to("cuda", torch.float16, memory_format=torch.channels_last)
    pictures = images(1, 224, torch.float16).to(memory_format=torch.channels_last)
    return inference(model, pictures)


def translation_train() -> Step:
    """An encoder-decoder transformer of three layers each with dropout, bf16, AdamW fused."""
    model = nn.Transformer(
        384, 6, 3, 3, 1536, dropout=0.1, batch_first=True, device="cuda", dtype=HALF
    )
    source, target = (torch.randn(8, length, 384, device="cuda", dtype=HALF) for length in (96, 64))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True, capturable=True)
    return training(model, lambda: model(source, target).float().square().mean(), optimizer)


def video_infer() -> Step:
    """R3D-18 on 8 frames of 112 x 112, batch 2, fp32."""
    import torchvision

    with torch.device("cuda"):
        model = torchvision.models.video.r3d_18()
    return inference(model, torch.randn(2, 3, 8, 112, 112, device="cuda"))
