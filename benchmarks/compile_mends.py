"""Whether mending the first cause saves what was promised, on models that the predictions were not
made with. Needs a GPU with torch, torchvision, transformers and torch-geometric.

    python -m benchmarks.compile_mends [--suite first|fresh|unseen|further] [--steps 160]
        [--processes 3] [MODEL...]

Each model is written once as one may write it and once mended, and each of the two is compiled in
several processes of its own, for two compilations of one step may differ by a tenth: first in one,
all models at the same time, and then in the others, which take kernels from the first one's cache.
Then one model is measured after another: all its processes are timed in turns without a profiler,
and then the first is traced. Prints a line a model: the first cause with its line, what was
promised and what was saved (the difference of the medians over the processes, with its standard
error), or that it failed.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import torch
from torch import nn

from benchmarks import compile_fresh_mends, compile_further_mends, compile_unseen_mends
from benchmarks.compile_steps import (
    DEVICE,
    MOST_TO_COMPILE,
    WARM_UP,
    Apart,
    Step,
    arguments,
    error_of_median,
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
PROCESSES: Final = 3
_TURNS: Final = 2
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
    "further": compile_further_mends.MODELS,
}
"""The first ten were looked at when the predictions were made anew, the fresh ones when they were
mended, the unseen ones when they were calibrated, the further ones never."""


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


def as_written(_: str, build: Build, count: int, caches: Path) -> Iterator[Told | None]:
    """Times of the step, in ns, whenever they are asked for, and then what is promised."""
    # A graph from an earlier cache does not say why it is split.
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(caches)
    with folder_of(build.__name__) as folder:
        seen = yield from observed(lambda: build(False), count // _TURNS, folder, _TURNS)
    causes = compile_causes(seen.compilation, seen.time, seen.step_ns) if seen.compilation else ()
    yield Promise(causes)


def timed_alone(
    _: str, build: Callable[[], Step], count: int, caches: Path
) -> Iterator[Told | None]:
    """Times of a step, in ns, as often as they are asked for."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(caches)
    step = build()
    timed(step, WARM_UP)
    yield None
    while True:
        yield settled_times(step, count // _TURNS)


@dataclass(frozen=True)
class Model:
    """The processes of a model."""

    written: list[Apart[Told]]
    """Those that run it as written; the first one is traced."""
    mended: list[Apart[Told]]
    """Those that run it mended."""

    @property
    def processes(self) -> list[Apart[Told]]:
        """All of them, in the order in which they are timed."""
        return [each for pair in zip(self.written, self.mended, strict=True) for each in pair]


def started(
    models: Mapping[str, Build], count: int, processes: int, caches: Path
) -> Iterator[Model]:
    """Each model, once its first two processes have compiled it or failed to, and the others have
    begun to; what is compiled or given up in one process changes nothing in another."""
    firsts = []
    for name, build in models.items():
        folders = caches / name / "written", caches / name / "mended"
        written = Apart(name, partial(as_written, build=build, count=count, caches=folders[0]))
        again = [
            partial(timed_alone, build=partial(build, is_mended), count=count, caches=folder)
            for is_mended, folder in zip((False, True), folders, strict=True)
        ]
        firsts.append((Model([written], [Apart(name, again[1])]), again))
    for model, again in firsts:
        for process in model.processes:
            process.is_ready(MOST_TO_COMPILE)
        if not any(process.has_failed for process in model.processes):
            for _ in range(processes - 1):
                model.written.append(Apart(model.written[0].name, again[0]))
                model.mended.append(Apart(model.written[0].name, again[1]))
        yield model


def row(model: Model) -> tuple[str, bool]:
    """The line of a model, and whether the promise was kept."""
    medians: dict[Apart[Told], list[float]] = {process: [] for process in model.processes}
    for _ in range(_TURNS):
        for process, own in medians.items():
            result = process.measured().result
            if isinstance(result, list):
                own.append(statistics.median(result))
    # What disturbs a turn makes it longer.
    first, last = (
        [min(medians[process]) for process in side if medians[process]]
        for side in (model.written, model.mended)
    )
    outcome, name = model.written[0].measured(), model.written[0].name
    promise = outcome.result
    if not isinstance(promise, Promise) or not first or not last:
        failure = outcome.failure or model.mended[0].measured().failure
        return f"| {name} | failed: {failure} | | | | | | |", False
    before = statistics.median(first)
    saved, cause = before - statistics.median(last), promise.first
    error = (error_of_median(first) ** 2 + error_of_median(last) ** 2) ** 0.5
    measured = f"{saved / 1e3:.0f} ± {error / 1e3:.0f}"
    count = f"{len(first)}+{len(last)}"
    if cause is None or isinstance(cause.saves_ns, Missing):
        named = ", ".join(each.rule.value for each in promise.causes)
        why = f"none with a saving ({named or 'no cause'})"
        return f"| {name} | {why} | | {before / 1e3:.0f} | | {measured} | | {count} |", False
    off = cause.saves_ns / saved - 1 if saved > 0 else float("inf")
    place = cause.lines[0].text if cause.lines else ""
    line = (
        f"| {name} | {cause.rule.value} | {place} | {before / 1e3:.0f} | "
        f"{cause.saves_ns / 1e3:.0f} | {measured} | {off:+.0%} | {count} |"
    )
    return line, abs(off) <= _WITHIN


def report(models: Sequence[Model]) -> None:
    """Prints the table, one model measured after another."""
    print("| model | first cause | line | before, µs | promised | saved | off | processes |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    kept = 0
    for each in models:
        line, is_kept = row(each)
        for process in each.processes:
            process.end()
        kept += is_kept
        print(line, flush=True)
    print(f"{kept} of {len(models)} within {_WITHIN:.0%}", flush=True)


def main() -> None:
    """Prints the table."""
    names = tuple(name for suite in SUITES.values() for name in suite)
    chosen = arguments(__doc__, names, tuple(SUITES), steps=STEPS, processes=PROCESSES)
    suite = SUITES[chosen.suite]
    wanted = {name: suite[name] for name in chosen.models or suite}
    with TemporaryDirectory() as caches:
        models = list(started(wanted, chosen.steps, chosen.processes, Path(caches)))
        wait_until_ready(chain.from_iterable(each.processes for each in models), chosen.seconds)
        report(models)


if __name__ == "__main__":
    main()
