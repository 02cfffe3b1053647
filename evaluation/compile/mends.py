"""Whether mending the first cause saves what was promised, on models that the predictions were not
made with. Needs a GPU with torch, torchvision, transformers and torch-geometric.

    python -m evaluation.compile.mends [--suite first|fresh|unseen|further|substantial]
        [--steps 160] [--processes 3] [--seconds 120] [MODEL...]

Each model is written once as one may write it and once mended, and each of the two is compiled in
several processes of its own, for two compilations of one step may differ by a tenth: first in one,
all models at the same time, and then, five models at a time, in the others, which take kernels from
the first one's cache. Then one model is measured after another: all its processes are timed in
turns without a profiler, each on the same two cores that nothing else uses, and then those that run
it as written are traced, so that each has a promise of its own.

Prints a line a model as soon as it is known: the first cause with its line, the median over the
processes of what is promised, what each of them is promised, and what was saved (the difference of
the medians over the processes, with its standard error), or that it failed. ``--seconds`` is for
five models to be compiled in all their processes. COMPILE_BENCHMARK_FOLDER keeps a trace, the times
and the account of each process that was traced, and the printed lines.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import torch
from torch import nn

from evaluation.compile import (
    fresh_mends,
    further_mends,
    substantial_mends,
    unseen_mends,
)
from evaluation.compile.steps import (
    DEVICE,
    MOST_TO_COMPILE,
    WARM_UP,
    Apart,
    ObservedStep,
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
from evaluation.compile.sums import vision
from graphviz_dash.features.torch_compile.analysis.causes import find_compile_causes
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.compilation import UserLine
from graphviz_dash.model.compile_rules import CompileRuleId

Build = Callable[[bool], Step]

MODELS: Final[dict[str, Build]] = {}
STEPS: Final = 160
PROCESSES: Final = 3
_TURNS: Final = 2
_WITHIN: Final = 0.2
_AT_A_TIME: Final = 5
"""Models that have all their processes at the same time: each process takes a GiB."""


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
    "fresh": fresh_mends.MODELS,
    "unseen": unseen_mends.MODELS,
    "further": further_mends.MODELS,
    "substantial": substantial_mends.MODELS,
}
"""The first ten were looked at when the predictions were made anew, the fresh ones when they were
mended, the unseen ones when they were calibrated, the further ones when promises were bounded; the
substantial ones never."""


class Place(NamedTuple):
    """What a cause is known by in each process."""

    rule: CompileRuleId
    lines: tuple[UserLine, ...]

    @property
    def text(self) -> str:
        """Its line, where one is known."""
        return self.lines[0].text if self.lines else ""


@dataclass(frozen=True)
class Promise:
    """What is told of the step as written."""

    place: Place
    """The first cause: the one that saves most, by the median over the processes."""
    each_ns: tuple[float, ...]
    """What mending it would save by each process, in ns; 0 where a process does not tell it."""

    @property
    def ns(self) -> float:
        """The promise that is scored."""
        return statistics.median(self.each_ns)


Told = ObservedStep | list[int]


def promise(seen: Sequence[ObservedStep]) -> Promise | str:
    """What is promised by the processes that ran the step as written, or which causes without a
    saving there are."""
    account = seen[0].compilation
    told: list[dict[Place, float]] = []
    named: dict[CompileRuleId, None] = {}
    for each in seen:
        # Graphs from the first one's cache do not say why they are split: the account is its.
        causes = find_compile_causes(account, each.time, each.step_ns) if account else ()
        named.update((cause.rule, None) for cause in causes)
        told.append({})
        for cause in causes:
            if not isinstance(cause.gain_ns, Missing):
                told[-1].setdefault(Place(cause.rule, cause.lines[:1]), cause.gain_ns)
    places = dict.fromkeys(place for causes_told in told for place in causes_told)
    promises = [Promise(at, tuple(own.get(at, 0.0) for own in told)) for at in places]
    first = max(promises, key=lambda each: each.ns, default=None)
    return first or ", ".join(rule.value for rule in named) or "no cause"


def as_written(
    name: str, build: Build, count: int, caches: Path, number: int
) -> Iterator[Told | None]:
    """Times of the step, in ns, whenever they are asked for, and then what is seen of it."""
    # A graph from an earlier cache does not say why it is split.
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(caches)
    with folder_of(f"{name}/{number}") as folder:
        seen = yield from observed(lambda: build(False), count // _TURNS, folder, _TURNS)
    yield seen


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


class Model:
    """The processes of a model: at first one that compiles it as written and one mended."""

    def __init__(self, name: str, build: Build, count: int, caches: Path) -> None:
        self.name = name
        self._build, self._count, self._caches = build, count, caches / name
        self.written: list[Apart[Told]] = []
        """Those that run it as written."""
        self.mended: list[Apart[Told]] = []
        """Those that run it mended."""
        self._start_pair()

    @property
    def processes(self) -> list[Apart[Told]]:
        """All of them, in the order in which they are timed."""
        return [each for pair in zip(self.written, self.mended, strict=True) for each in pair]

    def start_others(self, processes: int) -> None:
        """Starts the other processes, unless one of the first two has failed to compile; what is
        compiled or given up in one process changes nothing in another."""
        ready = [process.is_ready(MOST_TO_COMPILE) for process in self.processes]
        for _ in range(processes - 1 if all(ready) else 0):
            self._start_pair()

    def _start_pair(self) -> None:
        written = partial(
            as_written,
            build=self._build,
            count=self._count,
            caches=self._caches / "written",
            number=len(self.written),
        )
        mended = partial(
            timed_alone,
            build=partial(self._build, True),
            count=self._count,
            caches=self._caches / "mended",
        )
        self.written.append(Apart(self.name, written))
        self.mended.append(Apart(self.name, mended))


@dataclass(frozen=True)
class Tried:
    """What was promised and measured of a model."""

    name: str
    promise: Promise | str
    written_ns: tuple[float, ...]
    """The time of the step as written in each process: of the turns' medians the least, for what
    disturbs a turn makes it longer."""
    mended_ns: tuple[float, ...]
    """The same, mended."""

    @property
    def saved_ns(self) -> float:
        """The difference of the medians over the processes."""
        return statistics.median(self.written_ns) - statistics.median(self.mended_ns)

    @property
    def off(self) -> float:
        """What was promised, over what was saved, less 1."""
        if isinstance(self.promise, str) or self.saved_ns <= 0:
            return float("inf")
        return self.promise.ns / self.saved_ns - 1

    @property
    def is_kept(self) -> bool:
        """Whether the promise was kept."""
        return abs(self.off) <= _WITHIN

    @property
    def line(self) -> str:
        """Its line of the table."""
        error = math.hypot(error_of_median(self.written_ns), error_of_median(self.mended_ns))
        cells = [self.name]
        if isinstance(self.promise, str):
            cells += [f"none with a saving ({self.promise})", ""]
        else:
            cells += [self.promise.place.rule.value, self.promise.place.text]
        cells.append(f"{statistics.median(self.written_ns) / 1e3:.0f}")
        off = ""
        if isinstance(self.promise, str):
            cells += ["", ""]
        else:
            off = f"{self.off:+.0%}"
            each = ", ".join(f"{ns / 1e3:.0f}" for ns in self.promise.each_ns)
            cells += [f"{self.promise.ns / 1e3:.0f}", each]
        cells += [f"{self.saved_ns / 1e3:.0f} ± {error / 1e3:.0f}", off]
        cells.append(f"{len(self.written_ns)}+{len(self.mended_ns)}")
        return f"| {' | '.join(cells)} |"


def tried(model: Model) -> Tried | str:
    """Measures a model; why nothing could be measured, where it has failed."""
    medians: dict[Apart[Told], list[float]] = {process: [] for process in model.processes}
    for _ in range(_TURNS):
        for process, own in medians.items():
            result = process.measured().result
            if isinstance(result, list):
                own.append(statistics.median(result))
    for process in model.written:
        process.measured()
        process.ask()  # it reads its trace while the next is traced
    outcomes = [process.measured() for process in model.written]
    seen = [each.result for each in outcomes if isinstance(each.result, ObservedStep)]
    written, mended = (
        tuple(min(medians[process]) for process in side if medians[process])
        for side in (model.written, model.mended)
    )
    if seen and written and mended:
        return Tried(model.name, promise(seen), written, mended)
    outcomes += [process.measured() for process in model.mended]
    return next((each.failure for each in outcomes if each.failure), "nothing was traced")


def report(models: Iterable[Model], kept_in: str | None = None) -> tuple[int, int]:
    """Prints the lines of models, one measured after another; how many promises were kept, and of
    how many."""
    kept = count = 0
    for model in models:
        result = tried(model)
        for process in model.processes:
            process.end()
        count += 1
        kept += isinstance(result, Tried) and result.is_kept
        failed = f"| {model.name} | failed: {result} | | | | | | | |"
        line = result.line if isinstance(result, Tried) else failed
        print(line, flush=True)
        if kept_in is not None:
            with Path(kept_in, "lines.md").open("a") as file:
                file.write(f"{line}\n")
    return kept, count


def print_head() -> None:
    """Prints the head of the table."""
    print(
        "| model | first cause | line | before, µs | promised | by each process | saved | off "
        "| processes |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        flush=True,
    )


def main() -> None:
    """Prints the table."""
    names = tuple(name for suite in SUITES.values() for name in suite)
    chosen = arguments(__doc__, names, tuple(SUITES), steps=STEPS, processes=PROCESSES)
    suite = SUITES[chosen.suite]
    begun = time.monotonic()
    kept = count = 0
    with TemporaryDirectory() as caches:
        waiting = [
            Model(name, suite[name], chosen.steps, Path(caches)) for name in chosen.models or suite
        ]
        print_head()
        while waiting:
            together, waiting = waiting[:_AT_A_TIME], waiting[_AT_A_TIME:]
            for model in together:
                model.start_others(chosen.processes)
            every = chain.from_iterable(model.processes for model in together)
            wait_until_ready(every, chosen.seconds)
            own, of = report(together, os.environ.get("COMPILE_BENCHMARK_FOLDER"))
            kept, count = kept + own, count + of
    print(f"{kept} of {count} within {_WITHIN:.0%}", flush=True)
    print(f"in {time.monotonic() - begun:.0f} s", flush=True)


if __name__ == "__main__":
    main()
