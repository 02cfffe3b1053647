"""Whether mending the first cause saves what was promised, on models that the predictions were not
made with. Needs a GPU with torch, torchvision, transformers and torch-geometric.

    python -m benchmarks.compile_mends [--suite first|fresh|unseen] [--steps 160] [MODEL...]

Each model is written once as one may write it and once mended, and each of the two is compiled in a
process of its own, all at the same time. Then one model is measured after another: both are timed
in turns without a profiler, and then the first is traced. Prints a line a model: the first cause
with its line, what was promised and what was saved (with half of what turns of one step differ by),
or that it failed.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from tempfile import TemporaryDirectory
from typing import Final

import torch
from torch import nn

from benchmarks import compile_fresh_mends, compile_unseen_mends
from benchmarks.compile_steps import (
    DEVICE,
    WARM_UP,
    Apart,
    Step,
    arguments,
    folder_of,
    graphed,
    inference,
    observed,
    random,
    settled_times,
    timed,
    wait_until_ready,
)
from benchmarks.compile_sums import vision
from graphviz_dash.analysis.compiled.cause import CompileCause
from graphviz_dash.analysis.compiled.causes import compile_causes
from graphviz_dash.model.absence import Missing

Build = Callable[[bool], Step]

MODELS: Final[dict[str, Build]] = {}
STEPS: Final = 160
_TURNS: Final = 4
_WITHIN: Final = 0.2


def model(build: Build) -> Build:
    """Adds a model: from whether it is mended to its step."""
    MODELS[build.__name__] = build
    return build


@model
def resnet50_logs_each_stage(mended: bool) -> Step:
    own = vision("resnet50").eval()

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
    own = vision("efficientnet_b0").eval()

    def forward(x: torch.Tensor) -> torch.Tensor:
        y = own.features(x)
        norm = y.norm()
        y = y / (norm if mended else norm.item())
        return own.classifier(torch.flatten(own.avgpool(y), 1))

    return inference(forward, random(4, 3, 160, 160))


@model
def swin_keeps_a_mean_on_the_cpu(mended: bool) -> Step:
    own = vision("swin_t").eval()

    def forward(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = own.features(x)
        mean = y.mean()
        return own.head(own.norm(y).mean((1, 2))), mean if mended else mean.cpu()

    return inference(forward, random(2, 3, 224, 224))


@model
def densenet_finds_what_fires(mended: bool) -> Step:
    own = vision("densenet121").eval()

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


SUITES: Final = {
    "first": MODELS,
    "fresh": compile_fresh_mends.MODELS,
    "unseen": compile_unseen_mends.MODELS,
}
"""The first ten were looked at when the predictions were made anew, the fresh ones when they were
mended, the others never."""


@dataclass(frozen=True)
class Promise:
    """What is told of the step as written."""

    causes: tuple[CompileCause, ...]
    """All of its causes, the first one first."""

    @property
    def first(self) -> CompileCause | None:
        """The first whose saving is known."""
        return next((each for each in self.causes if not isinstance(each.saves_ns, Missing)), None)


Told = Promise | list[int]


def as_written(name: str, build: Build, count: int) -> Iterator[Told | None]:
    """Times of the step, in ns, whenever they are asked for, and then what is promised."""
    with folder_of(name) as folder, TemporaryDirectory() as caches:
        # A graph from the cache does not say why it is split.
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = caches
        seen = yield from observed(lambda: build(False), count // _TURNS, folder, _TURNS)
    causes = compile_causes(seen.compilation, seen.time, seen.step_ns) if seen.compilation else ()
    yield Promise(causes)


def mended(_: str, build: Build, count: int) -> Iterator[Told | None]:
    """Times of the mended step, in ns, as often as they are asked for."""
    step = build(True)
    timed(step, WARM_UP)
    yield None
    while True:
        yield settled_times(step, count // _TURNS)


Pair = tuple[Apart[Told], Apart[Told]]


def started(models: Mapping[str, Build], count: int) -> list[Pair]:
    """Two processes for each model, which begin to compile it as written and mended: what is
    compiled or given up in one, such as code that both share, changes nothing in the other."""
    return [
        (
            Apart(name, partial(as_written, build=build, count=count)),
            Apart(name, partial(mended, build=build, count=count)),
        )
        for name, build in models.items()
    ]


def row(pair: Pair) -> tuple[str, bool]:
    """The line of a model, and whether the promise was kept."""
    outcomes = [process.measured() for _ in range(_TURNS) for process in pair]
    outcomes.append(pair[0].measured())
    failure = next((each.failure for each in outcomes if each.failure is not None), None)
    name, (*told, promise) = pair[0].name, (each.result for each in outcomes)
    if failure is not None or not isinstance(promise, Promise):
        return f"| {name} | failed: {failure} | | | | | |", False
    medians = [statistics.median(each) for each in told if isinstance(each, list)]
    # What disturbs a turn makes it longer. How far turns differ says how well the least is known.
    first, last = min(medians[::2]), min(medians[1::2])
    spread = max(max(own) - min(own) for own in (medians[::2], medians[1::2]))
    saved, cause = first - last, promise.first
    measured = f"{saved / 1e3:.0f} ± {spread / 2e3:.0f}"
    if cause is None or isinstance(cause.saves_ns, Missing):
        named = ", ".join(each.rule.value for each in promise.causes)
        why = f"none with a saving ({named or 'no cause'})"
        return f"| {name} | {why} | | {first / 1e3:.0f} | | {measured} | |", False
    off = cause.saves_ns / saved - 1 if saved > 0 else float("inf")
    place = cause.lines[0].text if cause.lines else ""
    line = (
        f"| {name} | {cause.rule.value} | {place} | {first / 1e3:.0f} | "
        f"{cause.saves_ns / 1e3:.0f} | {measured} | {off:+.0%} |"
    )
    return line, abs(off) <= _WITHIN


def report(pairs: Sequence[Pair]) -> None:
    """Prints the table, one model measured after another."""
    print("| model | first cause | line | before, µs | promised | saved | off |")
    print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    kept = 0
    for pair in pairs:
        line, is_kept = row(pair)
        for process in pair:
            process.end()
        kept += is_kept
        print(line, flush=True)
    print(f"{kept} of {len(pairs)} within {_WITHIN:.0%}", flush=True)


def main() -> None:
    """Prints the table."""
    names = tuple(name for suite in SUITES.values() for name in suite)
    chosen = arguments(__doc__, names, tuple(SUITES), steps=STEPS)
    suite = SUITES[chosen.suite]
    models = {name: suite[name] for name in chosen.models or suite}
    pairs = started(models, chosen.steps)
    wait_until_ready(chain.from_iterable(pairs), chosen.seconds)
    report(pairs)


if __name__ == "__main__":
    main()
