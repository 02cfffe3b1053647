"""Steps that the planner of mode ``parallel`` and its costs have not seen, to be scored on.

On a GPU, with torchvision::

    python -m evaluation.parallel.unseen OUT [NAME ...]

plans each, times the plan that was taken in turns with the line, and writes a file for each to OUT,
as :mod:`evaluation.parallel.score` reads them from evaluation/data/parallel. About 8 s a step.
"""

from __future__ import annotations

import gc
import gzip
import sys
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
import torch
from torch import nn
from torch.nn import functional

from collectors.parallel.capture import StepGraph, compute_median_ns, time_replays
from collectors.parallel.graph import ParallelGraph
from collectors.parallel.streams import get_streams
from evaluation.parallel.score import Launch, RecordedPlan, Split
from graphviz_dash.errors import GraphvizDashError
from graphviz_dash.model.graph import GraphNode, KernelParams
from graphviz_dash.planning.proof import compute_node_ranges

Step: TypeAlias = Callable[[], object]

HALF: Final = torch.float16


def inferred(model: Callable[..., object], *inputs: Any) -> Step:
    """The step that calls a model without gradients."""

    @torch.no_grad()
    def step() -> object:
        return model(*inputs)

    return step


def siamese_resnets() -> Step:
    """ResNet-18 on two pictures one after another, and their distance; fp16."""
    import torchvision

    model = torchvision.models.resnet18().to("cuda", HALF).eval()
    first, second = (torch.randn(1, 3, 160, 160, device="cuda", dtype=HALF) for _ in range(2))
    return inferred(lambda a, b: (model(a) - model(b)).square().sum(), first, second)


def three_networks() -> Step:
    """An ensemble of ResNet-18, MobileNetV2 and ShuffleNetV2 on one picture; fp16."""
    import torchvision

    names = ("resnet18", "mobilenet_v2", "shufflenet_v2_x1_0")
    models = [getattr(torchvision.models, name)().to("cuda", HALF).eval() for name in names]
    x = torch.randn(1, 3, 160, 160, device="cuda", dtype=HALF)
    return inferred(lambda x: torch.stack([model(x) for model in models]).mean(0), x)


def atrous_pyramid() -> Step:
    """The head of DeepLabV3: five branches over one map; fp16."""
    from torchvision.models.segmentation.deeplabv3 import DeepLabHead

    head = DeepLabHead(256, 21).to("cuda", HALF).eval()
    return inferred(head, torch.randn(1, 256, 33, 33, device="cuda", dtype=HALF))


class Resolutions(nn.Module):
    """Branches at four resolutions that are mixed after each stage, as in HRNet."""

    def __init__(self, stages: int = 3) -> None:
        super().__init__()
        self.widths = (24, 48, 96, 192)
        self.stages = nn.ModuleList(
            nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for width in self.widths)
            for _ in range(stages)
        )
        self.mixes = nn.ModuleList(
            nn.ModuleList(nn.Conv2d(a, b, 1) for a in self.widths for b in self.widths)
            for _ in range(stages)
        )

    def forward(self, *maps: torch.Tensor) -> list[torch.Tensor]:
        """A map for each resolution."""
        current = list(maps)
        for stage, mixes in zip(self.stages, self.mixes, strict=True):
            current = [functional.relu(conv(x)) for conv, x in zip(stage, current, strict=True)]
            mixed = iter(mixes)
            rows = [[next(mixed)(x) for _ in self.widths] for x in current]
            current = [
                torch.stack(
                    [functional.interpolate(row[at], size=x.shape[-2:]) for row in rows]
                ).sum(0)
                for at, x in enumerate(current)
            ]
        return current


def resolutions() -> Step:
    """Three stages of four resolutions; fp16."""
    model = Resolutions().to("cuda", HALF).eval()
    maps = [
        torch.randn(1, width, 64 >> at, 64 >> at, device="cuda", dtype=HALF)
        for at, width in enumerate(model.widths)
    ]
    return inferred(model, *maps)


def both_directions() -> Step:
    """GRU cells in both directions, two layers, 20 steps."""
    cells = [[nn.GRUCell(size, 192).cuda() for _ in range(2)] for size in (96, 384)]
    inputs = torch.randn(20, 8, 96, device="cuda")

    def run() -> torch.Tensor:
        x = inputs
        for forward, backward in cells:
            states = [torch.zeros(8, 192, device="cuda") for _ in range(2)]
            ahead, behind = [], []
            for at in range(len(x)):
                states[0] = forward(x[at], states[0])
                states[1] = backward(x[-1 - at], states[1])
                ahead.append(states[0])
                behind.append(states[1])
            x = torch.cat([torch.stack(ahead), torch.stack(behind[::-1])], -1)
        return x

    return inferred(run)


def crossing_decoder() -> Step:
    """A decoder of 6 layers over the memory of an encoder, 12 tokens, batch 1; fp16."""
    layer = nn.TransformerDecoderLayer(384, 6, 1536, 0.0, batch_first=True)
    model = nn.TransformerDecoder(layer, 6).to("cuda", HALF).eval()
    tokens = torch.randn(1, 12, 384, device="cuda", dtype=HALF)
    memory = torch.randn(1, 80, 384, device="cuda", dtype=HALF)
    return inferred(model, tokens, memory)


def deep_and_cross() -> Step:
    """A recommender: 16 embeddings, a cross network beside a deep one."""
    tables = [nn.Embedding(5000, 32).cuda() for _ in range(16)]
    wide = 16 * 32
    crosses = [nn.Linear(wide, wide).cuda() for _ in range(3)]
    deep = nn.Sequential(
        nn.Linear(wide, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 64)
    ).cuda()
    last = nn.Linear(wide + 64, 1).cuda()
    rows = torch.randint(0, 5000, (16, 256), device="cuda")

    def run() -> torch.Tensor:
        x = torch.cat([table(rows[at]) for at, table in enumerate(tables)], -1)
        crossed = x
        for cross in crosses:
            crossed = x * cross(crossed) + crossed
        return last(torch.cat([crossed, deep(x)], -1))

    return inferred(run)


def contrastive_training() -> Step:
    """Forward and backward of two towers of MLPs with a contrastive loss."""
    towers = [
        nn.Sequential(*(nn.Sequential(nn.Linear(256, 256), nn.GELU()) for _ in range(4))).cuda()
        for _ in range(2)
    ]
    inputs = [torch.randn(64, 256, device="cuda") for _ in towers]
    weights = [weight for tower in towers for weight in tower.parameters()]
    labels = torch.arange(64, device="cuda")

    def step() -> object:
        for weight in weights:
            weight.grad = None
        a, b = (
            functional.normalize(tower(x), dim=-1) for tower, x in zip(towers, inputs, strict=True)
        )
        functional.cross_entropy(a @ b.t() * 10, labels).backward()
        return [weight.grad for weight in weights]

    return step


STEPS: Final[tuple[Callable[[], Step], ...]] = (
    siamese_resnets,
    three_networks,
    atrous_pyramid,
    resolutions,
    both_directions,
    crossing_decoder,
    deep_and_cross,
    contrastive_training,
)


def recorded(factory: Callable[[], Step]) -> RecordedPlan:
    """The plan of a step, and replays of it in turns with the line."""
    import collectors

    torch.manual_seed(0)
    step = factory()
    graph = collectors.parallel_graph(step)
    line = StepGraph(step, get_streams([True])[0])
    line_replays, replays = time_replays([line, graph.captured])
    device = torch.cuda.get_device_properties(torch.cuda.current_device())
    return RecordedPlan(
        name=(factory.__doc__ or factory.__name__).split(";")[0].rstrip("."),
        split=Split.UNSEEN,
        gpu=device.name,
        multiprocessors=device.multi_processor_count,
        compute_capability=(device.major, device.minor),
        plan=graph.plan,
        nodes=_nodes(graph),
        line_ns=round(compute_median_ns(line_replays)),
        measured_ns=round(compute_median_ns(replays)),
    )


def _nodes(graph: ParallelGraph) -> tuple[tuple[Launch, ...], ...] | None:
    nodes, operators = graph.captured.read_graph().nodes, graph.plan.operators
    if sum(operator.nodes for operator in operators) != len(nodes):
        return None
    return tuple(
        tuple(_launch(node) for node in nodes[own.start : own.stop])
        for own in compute_node_ranges(operators)
    )


def _launch(node: GraphNode) -> Launch:
    kernel = node.params
    if not isinstance(kernel, KernelParams) or kernel.grid is None or kernel.block is None:
        return Launch("", 0, 0, 0, 0)
    shared = (kernel.static_shared or 0) + (kernel.dynamic_shared or 0)
    blocks, threads = prod(kernel.grid), prod(kernel.block)
    return Launch(kernel.demangled[:60], blocks, threads, kernel.registers or 0, shared)


def record(steps: Sequence[Callable[[], Step]], arguments: Sequence[str]) -> None:
    """Records those of ``steps`` that are named behind the folder, or all; of one that cannot be
    planned it says why, and goes on."""
    out, *names = arguments
    Path(out).mkdir(parents=True, exist_ok=True)
    for factory in steps:
        name = factory.__name__.replace("_", "-")
        if names and name not in names:
            continue
        try:
            plan = recorded(factory)
        except (GraphvizDashError, RuntimeError) as error:
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
            continue
        gain = plan.line_ns / plan.measured_ns
        print(f"{name}: {gain:.2f}x on {plan.plan.chosen} streams", flush=True)
        content = gzip.compress(msgspec.json.encode(plan), 9, mtime=0)
        (Path(out) / f"{name}.json.gz").write_bytes(content)
        gc.collect()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    record(STEPS, sys.argv[1:])
