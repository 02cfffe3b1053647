"""Whether mending the first cause saves what was promised, on models that the predictions were not
made with. Needs a GPU with torch, torchvision and transformers; each model runs in a process of its
own, and one that fails is told as failed.

    python -m benchmarks.compile_mends [--steps 150] [--seconds 60] [MODEL...]

Each model is written once as one may write it and once mended. Both are timed in turns without a
profiler, the first is traced besides. Prints a line a model: the first cause with its line, what
was promised and what was saved.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import torch
from torch import nn
from torch._inductor import config as inductor_config

from benchmarks.compile_steps import (
    DEVICE,
    WARM_UP,
    Step,
    each_apart,
    graphed,
    inference,
    observed,
    random,
    timed,
)
from graphviz_dash.analysis.compiled.causes import compile_causes
from graphviz_dash.model.absence import Missing

Build = Callable[[bool], Step]

MODELS: Final[dict[str, Build]] = {}
_TURNS: Final = 5
_WITHIN: Final = 0.2


def model(build: Build) -> Build:
    """Adds a model: from whether it is mended to its step."""
    MODELS[build.__name__] = build
    return build


def vision(name: str) -> nn.Module:
    """A model of torchvision with random weights."""
    import torchvision

    made: nn.Module = getattr(torchvision.models, name)(weights=None)
    return made.to(DEVICE).eval()


@model
def resnet50_logs_each_stage(mended: bool) -> Step:
    own = vision("resnet50")

    def forward(x: torch.Tensor) -> torch.Tensor:
        x = own.maxpool(own.relu(own.bn1(own.conv1(x))))
        for stage in (own.layer1, own.layer2, own.layer3, own.layer4):
            x = stage(x)
            if not mended:
                print(end="")
        return own.fc(torch.flatten(own.avgpool(x), 1))

    return inference(forward, random(4, 3, 160, 160))


@model
def efficientnet_scales_by_its_norm(mended: bool) -> Step:
    own = vision("efficientnet_b0")

    def forward(x: torch.Tensor) -> torch.Tensor:
        y = own.features(x)
        norm = y.norm()
        y = y / (norm if mended else norm.item())
        return own.classifier(torch.flatten(own.avgpool(y), 1))

    return inference(forward, random(4, 3, 160, 160))


@model
def swin_keeps_a_mean_on_the_cpu(mended: bool) -> Step:
    own = vision("swin_t")

    def forward(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = own.features(x)
        mean = y.mean()
        return own.head(own.norm(y).mean((1, 2))), mean if mended else mean.cpu()

    return inference(forward, random(2, 3, 224, 224))


@model
def densenet_finds_what_fires(mended: bool) -> Step:
    own = vision("densenet121")

    def forward(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.relu(own.features(x))
        fires = torch.where(y > 1e6, y, 0) if mended else torch.nonzero(y > 1e6)
        return own.classifier(y.mean((2, 3))), fires

    return inference(forward, random(2, 3, 128, 128))


@model
def bert_skips_empty_rows(mended: bool) -> Step:
    from transformers import BertConfig, BertModel

    sizes = {"hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024}
    own = BertModel(BertConfig(num_hidden_layers=4, **sizes)).to(DEVICE).eval()

    def forward(tokens: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = own(tokens).last_hidden_state
        total = weight.sum()
        if mended:
            hidden = torch.where(total > 0, hidden * weight, hidden)
        elif total > 0:
            hidden = hidden * weight
        return hidden.mean(1)

    tokens = torch.randint(0, 30_000, (4, 64), device=DEVICE)
    return inference(forward, tokens, torch.ones(64, 1, device=DEVICE))


@model
def gpt2_calls_what_is_disabled(mended: bool) -> Step:
    from transformers import GPT2Config, GPT2Model

    own = GPT2Model(GPT2Config(n_embd=256, n_layer=4, n_head=4)).to(DEVICE).eval()

    def soften(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x / 10) * 10

    capped = soften if mended else torch.compiler.disable(soften)

    def forward(tokens: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = own(tokens).last_hidden_state
        return capped(hidden) @ own.wte.weight.T

    return inference(forward, torch.randint(0, 50_000, (1, 64), device=DEVICE))


@model
def t5_averages_into_an_argument(mended: bool) -> Step:
    from transformers import T5Config, T5EncoderModel

    sizes = {"d_model": 256, "d_ff": 1024, "d_kv": 64, "num_heads": 4, "num_layers": 4}
    own = T5EncoderModel(T5Config(**sizes)).to(DEVICE).eval()

    def forward(tokens: torch.Tensor, mean: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden: torch.Tensor = own(tokens).last_hidden_state
        if mended:
            mean = mean * 0.9 + hidden.mean((0, 1)) * 0.1
        else:
            mean.mul_(0.9).add_(hidden.mean((0, 1)), alpha=0.1)
        return hidden - mean, mean

    tokens = torch.randint(0, 30_000, (4, 64), device=DEVICE)
    return inference(forward, tokens, torch.zeros(256, device=DEVICE))


@model
def unet_with_a_scale_on_the_cpu(mended: bool) -> Step:
    def block(inside: int, outside: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(inside, outside, 3, padding=1), nn.GroupNorm(8, outside))

    down = nn.ModuleList([block(8, 32), block(32, 64), block(64, 128)]).to(DEVICE)
    up = nn.ModuleList([block(128, 64), block(64, 32)]).to(DEVICE)
    scale = torch.tensor(0.7, device=DEVICE if mended else "cpu")

    def forward(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        x = torch.relu(down[0](x))
        for layer in (down[1], down[2]):
            x = torch.relu(layer(nn.functional.avg_pool2d(x, 2)))
        x = x * (scale * 2 + 1)
        for layer in up:
            x = torch.relu(layer(nn.functional.interpolate(x, scale_factor=2.0)))
        return x

    return inference(forward, random(2, 8, 64, 64), scale)


@model
def recommender_with_a_table_as_argument(mended: bool) -> Step:
    table = random(400_000, 64)
    head = nn.Sequential(nn.Linear(64 * 8, 256), nn.ReLU(), nn.Linear(256, 1)).to(DEVICE)
    if mended:
        torch._dynamo.mark_static_address(table)

    def forward(index: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        return head(table[index].flatten(1))

    return inference(forward, torch.randint(0, 400_000, (512, 8), device=DEVICE), table)


@model
def training_reads_its_loss(mended: bool) -> Step:
    own = nn.Sequential(*(part for _ in range(5) for part in (nn.Linear(512, 512), nn.GELU())))
    own.to(DEVICE)
    x, goal = random(64, 512), random(64, 512)

    def losses(x: torch.Tensor) -> torch.Tensor:
        loss = (own(x) - goal).square().mean()
        if mended:
            return loss * torch.where(loss > 10, 0.5, 1.0)
        return loss * (0.5 if loss > 10 else 1.0)

    compiled = graphed(losses)

    def step() -> None:
        torch.compiler.cudagraph_mark_step_begin()
        compiled(x).backward()
        own.zero_grad()

    return step


def measured(name: str, count: int) -> tuple[str, bool]:
    """The line of a model, and whether the promise was kept."""
    # A graph from the cache does not say why it is split.
    inductor_config.force_disable_caches = True
    with tempfile.TemporaryDirectory() as folder:
        seen = observed(lambda: MODELS[name](False), count, Path(folder))
    causes = compile_causes(seen.compilation, seen.time, seen.step_ns) if seen.compilation else ()
    cause = next((each for each in causes if not isinstance(each.saves_ns, Missing)), None)
    before, after = seen.step, MODELS[name](True)
    timed(after, WARM_UP)
    took: tuple[list[int], list[int]] = ([], [])
    for _ in range(_TURNS):
        took[0].extend(timed(before, count // _TURNS))
        took[1].extend(timed(after, count // _TURNS))
    first, last = (statistics.median(times) for times in took)
    saved = first - last
    if cause is None or isinstance(cause.saves_ns, Missing):
        named = ", ".join(cause.rule.value for cause in causes)
        why = f"none with a saving ({named or 'no cause'})"
        return f"| {name} | {why} | | {first / 1e3:.0f} | | {saved / 1e3:.0f} | |", False
    off = cause.saves_ns / saved - 1 if saved > 0 else float("inf")
    place = cause.lines[0].text if cause.lines else ""
    row = (
        f"| {name} | {cause.rule.value} | {place} | {first / 1e3:.0f} | "
        f"{cause.saves_ns / 1e3:.0f} | {saved / 1e3:.0f} | {off:+.0%} |"
    )
    return row, abs(off) <= _WITHIN


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", choices=[[], *MODELS])
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--seconds", type=float, default=60, help="Most for each model.")
    chosen = parser.parse_args()
    kept = tried = 0
    print("| model | first cause | line | before, µs | promised | saved | off |")
    print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    measure = partial(measured, count=chosen.steps)
    for outcome in each_apart(chosen.models or tuple(MODELS), measure, chosen.seconds):
        tried += 1
        if outcome.result is None:
            print(f"| {outcome.name} | failed: {outcome.failure} | | | | | |", flush=True)
            continue
        row, within = outcome.result
        kept += within
        print(row, flush=True)
    print(f"{kept} of {tried} within {_WITHIN:.0%}")


if __name__ == "__main__":
    main()
