"""Ten further models as one may write them and mended, which nobody had looked at when the
predictions of :mod:`graphviz_dash.analysis.compiled` were calibrated by those of
:mod:`evaluation.compile.unseen_mends`: ``evaluation.compile.mends --suite further``.
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


def layers(count: int, size: int, between: Callable[[], nn.Module] = nn.SiLU) -> nn.Sequential:
    """So many linear layers with a function behind each."""
    return nn.Sequential(
        *(part for _ in range(count) for part in (nn.Linear(size, size), between()))
    ).to(DEVICE)


@model
def mixer_reads_its_temperature(mended: bool) -> Step:
    """value-read: a learnt number is read amid the step."""
    tokens, channels, last = layers(2, 64, nn.GELU), layers(4, 256, nn.GELU), layers(3, 256)
    sharp = nn.Parameter(torch.tensor(2.0, device=DEVICE))

    def forward(x: torch.Tensor) -> torch.Tensor:
        x = x + tokens(x.transpose(1, 2)).transpose(1, 2)
        scale = torch.exp(sharp)
        x = x + torch.tanh(channels(x) / (scale if mended else scale.item()))
        return last(x).mean(1)

    return inference(forward, random(8, 64, 256))


@model
def autoencoder_prints_its_code(mended: bool) -> Step:
    """python-side-effect: a line printed between encoder and decoder."""
    encoder, decoder = layers(5, 384, nn.ReLU), layers(5, 384, nn.ReLU)

    def forward(x: torch.Tensor) -> torch.Tensor:
        code = encoder(x)
        if not mended:
            print(end="")
        return decoder(code)

    return inference(forward, random(128, 384))


@model
def attention_masks_when_some_are_missing(mended: bool) -> Step:
    """graph-break: an ``if`` that asks a tensor."""
    block = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True).to(DEVICE).eval()
    first, head = layers(2, 128), layers(3, 128)

    def forward(x: torch.Tensor, missing: torch.Tensor) -> torch.Tensor:
        y = first(x)
        if mended:
            y = torch.where(missing[..., None], 0.0, y)
        elif missing.any():
            y = y.masked_fill(missing[..., None], 0.0)
        y = y + block.linear2(torch.relu(block.linear1(block.norm1(y))))
        return head(y)

    missing = torch.zeros(8, 32, dtype=torch.bool, device=DEVICE)
    missing[:, -3:] = True
    return inference(forward, random(8, 32, 128), missing)


@model
def pointnet_samples_by_what_is_disabled(mended: bool) -> Step:
    """disabled-function: a helper that is not to be compiled, called twice in a line."""
    near, far, head = layers(3, 128, nn.ReLU), layers(3, 128, nn.ReLU), layers(2, 128, nn.ReLU)

    def centred(x: torch.Tensor) -> torch.Tensor:
        return (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-5)

    shared = centred if mended else torch.compiler.disable(centred)

    def forward(points: torch.Tensor) -> torch.Tensor:
        return head(shared(far(shared(near(points)))).amax(1))

    return inference(forward, random(8, 256, 128))


@model
def mobilenet_updates_a_running_mean(mended: bool) -> Step:
    """mutated-input: a mean that comes and goes as an argument."""
    own = vision("mobilenet_v2").eval()

    def forward(x: torch.Tensor, mean: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = own.features(x).mean((2, 3))
        if mended:
            mean = torch.lerp(mean, y.mean(0), 0.1)
        else:
            mean.lerp_(y.mean(0), 0.1)
        return own.classifier(y - mean), mean

    return inference(forward, random(4, 3, 128, 128), torch.zeros(1280, device=DEVICE))


@model
def predictor_weighs_by_a_tensor_on_the_cpu(mended: bool) -> Step:
    """cpu-work: weights that were left on the CPU, worked on there and copied."""
    first, second = layers(4, 256), layers(4, 256)
    weights = torch.rand(256, device=DEVICE if mended else "cpu")

    def forward(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return second(first(x) * torch.softmax(weights * 3, 0).to(DEVICE))

    return inference(forward, random(64, 256), weights)


@model
def detector_keeps_what_is_above_a_score(mended: bool) -> Step:
    """size-from-data: a mask of booleans picks rows."""
    body, scores, boxes = layers(4, 256, nn.ReLU), layers(2, 256), layers(2, 256)

    def forward(x: torch.Tensor) -> torch.Tensor:
        y = body(x)
        score = scores(y).mean(-1)
        if mended:
            best = torch.topk(score, 64).indices
            return boxes(y[best]).sum(0)
        return boxes(y[score > -10.0]).sum(0)

    return inference(forward, random(64, 256))


@model
def search_is_given_its_vectors(mended: bool) -> Step:
    """copied-inputs: a large matrix that is always the same is an argument."""
    vectors = random(120_000, 128)
    query = layers(3, 128, nn.GELU)
    if mended:
        torch._dynamo.mark_static_address(vectors)

    def forward(x: torch.Tensor, vectors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        best = torch.topk(query(x) @ vectors[:8192].T, 8)
        return best.values, vectors[best.indices].mean(1)

    return inference(forward, random(32, 128), vectors)


@model
def training_skips_a_step_that_explodes(mended: bool) -> Step:
    """value-read: in training, the loss of a part decides about another."""
    body, first, second = layers(4, 320, nn.GELU), layers(2, 320), layers(2, 320)
    every = nn.ModuleList([body, first, second])
    x, goal = random(96, 320), random(96, 320)

    def losses(x: torch.Tensor) -> torch.Tensor:
        state = body(x)
        part = (first(state) - goal).abs().mean()
        if mended:
            weight = torch.where(part.detach() < 1e4, 1.0, 0.0)
        else:
            weight = 1.0 if part.detach().item() < 1e4 else 0.0
        return part * weight + (second(state) - goal).square().mean()

    compiled = graphed(losses)

    def step() -> None:
        torch.compiler.cudagraph_mark_step_begin()
        compiled(x).backward()
        every.zero_grad()

    return step


class Settling(nn.Module):
    """A layer that goes on only while its output is not settled."""

    def __init__(self, mended: bool) -> None:
        super().__init__()
        self.mended = mended
        self.first, self.more = layers(2, 192, nn.Tanh), layers(2, 192, nn.Tanh)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        change = (y - x).abs().amax()
        if self.mended:
            return torch.where(change > 1e-6, self.more(y), y)
        return self.more(y) if change > 1e-6 else y


@model
def ensemble_holds_a_member_that_settles(mended: bool) -> Step:
    """value-read: an ``if`` on a tensor, within a module amid others."""
    early, late, settling = layers(4, 192, nn.Tanh), layers(4, 192, nn.Tanh), Settling(mended)

    def forward(x: torch.Tensor) -> torch.Tensor:
        return late(settling(early(x)))

    return inference(forward, random(48, 192))
