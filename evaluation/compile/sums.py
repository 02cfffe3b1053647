"""Whether what a compiled step's parts cost sums to the measured step, on ten real models. Needs a
GPU with torch, torchvision, transformers and torch-geometric; each model is compiled in a process
of its own, all at the same time; then one is measured after another. One that fails is told.

    python -m evaluation.compile.sums [--steps 60] [--seconds 120] [MODEL...]

Each is timed without a profiler and then traced. Prints a line a model: the step, its parts in such
a step, what idle time in it is of the trace's, and how far their sum is off. It is off where the
GPU's work takes longer in the trace than the step, which nothing but the trace can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final

import torch
from torch import nn

from evaluation.compile.steps import (
    DEVICE,
    Apart,
    Outcome,
    Step,
    arguments,
    folder_of,
    graphed,
    inference,
    observed,
    random,
    wait_until_ready,
)
from graphviz_dash.analysis.step_comparison.step_parts import StepPart
from graphviz_dash.features.torch_compile.analysis.step_time import StepTime
from graphviz_dash.model.absence import Missing

MODELS: Final[dict[str, Callable[[], Step]]] = {}
STEPS: Final = 60
WITHIN: Final = 0.05
_TOKENS: Final = 8


def model(build: Callable[[], Step]) -> Callable[[], Step]:
    """Adds a model: a function that builds its step."""
    MODELS[build.__name__] = build
    return build


def vision(name: str) -> nn.Module:
    """A model of torchvision with random weights."""
    import torchvision

    made: nn.Module = getattr(torchvision.models, name)(weights=None)
    return made.to(DEVICE)


@model
def resnet50() -> Step:
    return inference(vision("resnet50").eval(), random(4, 3, 160, 160))


@model
def mobilenet_v3() -> Step:
    return inference(vision("mobilenet_v3_large").eval(), random(4, 3, 160, 160))


@model
def vit_b_16() -> Step:
    return inference(vision("vit_b_16").eval(), random(2, 3, 224, 224))


@model
def bert() -> Step:
    from transformers import BertConfig, BertModel

    sizes = {"hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024}
    own = BertModel(BertConfig(num_hidden_layers=4, **sizes)).to(DEVICE).eval()
    return inference(own, torch.randint(0, 30_000, (4, 64), device=DEVICE))


def generating(cache: Callable[[Any], Any], **options: Any) -> Step:
    """Greedy decoding of a small Llama by ``generate``, its forward compiled."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=256,
        intermediate_size=688,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        vocab_size=1000,
        max_position_embeddings=512,
    )
    own = LlamaForCausalLM(config).to(DEVICE).eval()
    own.forward = graphed(own.forward, **options)
    prompt = torch.randint(0, 1000, (1, 8), device=DEVICE)
    mask = torch.ones_like(prompt)
    kept = cache(config)

    def step() -> object:
        # The caches of all tokens of a step are outputs of graphs: they live until the next one.
        torch.compiler.cudagraph_mark_step_begin()
        with torch.no_grad():
            if kept is not None:
                kept.reset()
            return own.generate(
                prompt,
                attention_mask=mask,
                past_key_values=kept,
                max_new_tokens=_TOKENS,
                min_new_tokens=_TOKENS,
                do_sample=False,
                pad_token_id=0,
                disable_compile=True,
            )

    return step


@model
def generate_with_a_dynamic_cache() -> Step:
    return generating(lambda _: None, dynamic=True)


@model
def generate_with_a_static_cache() -> Step:
    from transformers import StaticCache

    def cache(config: Any) -> StaticCache:
        # Made here, it stays where it is; made in the compiled forward, it is an output of a graph.
        made = StaticCache(config=config, max_cache_len=64)
        heads, size = config.num_key_value_heads, config.head_dim
        made.early_initialization(1, heads, size, torch.float32, torch.device(DEVICE))
        return made

    return generating(cache)


@model
def graph_convolution() -> Step:
    from torch_geometric.nn import GCNConv

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            sizes = (64, 128, 128, 16)
            self.layers = nn.ModuleList(
                GCNConv(inside, outside) for inside, outside in pairwise(sizes)
            )

        def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = torch.relu(layer(x, edges))
            return x

    edges = torch.randint(0, 2_000, (2, 20_000), device=DEVICE)
    return inference(Network().to(DEVICE), random(2_000, 64), edges)


def training(is_compiled: bool) -> Step:
    """A step of ResNet-18 with Adam, whose own step is compiled or not."""
    own = vision("resnet18").train()
    optimizer = torch.optim.Adam(own.parameters(), lr=1e-4, capturable=DEVICE == "cuda")
    compiled, update = graphed(own), optimizer.step
    if is_compiled:
        update = graphed(optimizer.step)
    x, goal = random(8, 3, 96, 96), torch.randint(0, 1000, (8,), device=DEVICE)

    def step() -> None:
        torch.compiler.cudagraph_mark_step_begin()
        nn.functional.cross_entropy(compiled(x), goal).backward()
        update()
        # Gradients are outputs of the backward's graph: the next step's are others.
        optimizer.zero_grad()

    return step


@model
def training_with_an_eager_optimizer() -> Step:
    return training(is_compiled=False)


@model
def training_with_a_compiled_optimizer() -> Step:
    return training(is_compiled=True)


@model
def gpt2_that_prints() -> Step:
    from transformers import GPT2Config, GPT2Model

    own = GPT2Model(GPT2Config(n_embd=256, n_layer=4, n_head=4)).to(DEVICE).eval()

    def forward(tokens: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = own(tokens).last_hidden_state
        print(end="")
        return hidden @ own.wte.weight.T

    return inference(forward, torch.randint(0, 50_000, (1, 64), device=DEVICE))


Measured = tuple[float, StepTime | Missing]


def measured(name: str, count: int) -> Iterator[Measured | None]:
    """The step without a profiler, in ns, and where the time of the traced ones goes."""
    with folder_of(name) as folder:
        seen = yield from observed(MODELS[name], count, folder)
    yield seen.step_ns, seen.time


def row(outcome: Outcome[Measured]) -> tuple[str, bool]:
    """The line of a model, and whether its parts sum to the step."""
    empty = " |" * (len(StepPart) + 3)
    if outcome.result is None:
        return f"| {outcome.name} | failed: {outcome.failure} |{empty}", False
    step_ns, time = outcome.result
    if isinstance(time, Missing):
        return f"| {outcome.name} | {step_ns / 1e3:.0f}: {time.reason} |{empty}", False
    parts = dict.fromkeys(StepPart, 0.0)
    for own in time.parts:
        parts[own.part] += time.compute_clean_ns(own, step_ns)
    off = sum(parts.values()) / step_ns - 1
    cells = " | ".join(f"{ns / 1e3:.0f}" for ns in parts.values())
    graphs = sum(call.replays for call in time.calls)
    # What the profiler adds to idle time is scaled away; far from 1 it is divided weakly.
    factor = time.compute_idle_scale(step_ns)
    return (
        f"| {outcome.name} | {step_ns / 1e3:.0f} | {graphs:.1f} | {cells} | {factor:.2f} | "
        f"{off:+.1%} |",
        abs(off) <= WITHIN,
    )


def started(names: Sequence[str], count: int) -> list[Apart[Measured]]:
    """A process for each model, which begins to compile."""
    return [Apart(name, partial(measured, count=count)) for name in names]


def report(processes: Sequence[Apart[Measured]]) -> None:
    """Prints the table, one model measured after another."""
    parts = " | ".join(part.value for part in StepPart)
    print(f"| model | step, µs | graphs | {parts} | idle in the step / traced | sum off |")
    print("| --- " * (len(StepPart) + 5) + "|", flush=True)
    within = 0
    for process in processes:
        line, is_within = row(process.measured())
        process.end()
        within += is_within
        print(line, flush=True)
    print(f"{within} of {len(processes)} within {WITHIN:.0%}", flush=True)


def main() -> None:
    """Prints the table."""
    chosen = arguments(__doc__, tuple(MODELS), steps=STEPS)
    processes = started(chosen.models or tuple(MODELS), chosen.steps)
    wait_until_ready(processes, chosen.seconds)
    report(processes)


if __name__ == "__main__":
    main()
