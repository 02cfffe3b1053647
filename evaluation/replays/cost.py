"""Cost of the watch of memory: ``python -m evaluation.replays.cost``.

Needs a GPU. Blocks of steps with watched and with plain replays alternate in one process, and every
second pair begins with the watched block. The cost is the median over two neighbouring pairs of
their mean ratio, because the second block of a pair can be slower than the first.
``loop`` replays one graph without other work,
``server`` runs the example server, and ``script`` a program of others.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import math
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click
import torch

from collectors.replays.notes import MarksSettings, NoteFolder
from collectors.replays.program import MarkedProgram

_WARMUP: Final = 0.1
"""Share of the blocks that is not used."""

_RESAMPLES: Final = 2000


class TimeOverError(Exception):
    """The measurement lasted as long as it may."""


@dataclass
class Alternation:
    """Alternates watched and plain replays.

    Args:
        block: Steps per block.
        seconds: Time after which the measurement ends with :class:`TimeOverError`.
    """

    block: int
    strict: bool = False
    seconds: float = math.inf
    blocks: list[float] = field(default_factory=list)
    """Seconds per step of each block."""
    _steps: int = 0
    _began: float = 0.0

    def __post_init__(self) -> None:
        self._end = time.perf_counter() + self.seconds
        graph_class: Any = torch.cuda.CUDAGraph
        self._plain = graph_class.replay
        folder = Path(tempfile.mkdtemp())
        settings = MarksSettings(str(folder), strict=self.strict, marks=False)
        MarkedProgram(settings, NoteFolder(folder / "notes"), "cost").install()
        self._watched = graph_class.replay

    def start_step(self) -> None:
        """Count a step that is about to start; end the block after its last step."""
        if self._steps % self.block == 0:
            torch.cuda.synchronize()
            now = time.perf_counter()
            if self._steps:
                self.blocks.append((now - self._began) / self.block)
            if now > self._end:
                raise TimeOverError
            watches = has_watch(len(self.blocks))
            torch.cuda.CUDAGraph.replay = self._watched if watches else self._plain  # type: ignore[method-assign]
            self._began = time.perf_counter()
        self._steps += 1

    def list_pairs(self) -> list[tuple[float, float]]:
        """Return seconds per step of plain and watched blocks, without the first pairs."""
        pairs = [
            (second, first) if has_watch(2 * number) else (first, second)
            for number, (first, second) in enumerate(
                zip(self.blocks[::2], self.blocks[1::2], strict=False)
            )
        ]
        return pairs[int(_WARMUP * len(pairs)) :]

    def describe(self, name: str) -> dict[str, Any]:
        """Return the cost in us and percent of a step, with a 95% interval."""
        pairs = self.list_pairs()
        ratios = [watch / plain for plain, watch in pairs]
        percentages = [
            100 * (math.sqrt(first * second) - 1)
            for first, second in zip(ratios[::2], ratios[1::2], strict=False)
        ]
        step = 1e6 * statistics.median(plain for plain, _ in pairs)
        percent = statistics.median(percentages)
        return {
            "name": name,
            "strict": self.strict,
            "pairs": len(pairs),
            "step_us": step,
            "cost_us": percent * step / 100,
            "cost_percent": percent,
            "interval_percent": compute_interval(percentages),
            "pairs_us": [[1e6 * plain, 1e6 * watch] for plain, watch in pairs],
        }


def has_watch(block: int) -> bool:
    """Check if a block replays under the watch. Every second pair begins with a watched block."""
    return block % 2 != block // 2 % 2


def compute_interval(values: Sequence[float]) -> tuple[float, float]:
    draw = random.Random(0)
    medians = sorted(
        statistics.median(draw.choices(values, k=len(values))) for _ in range(_RESAMPLES)
    )
    return medians[_RESAMPLES // 40], medians[-_RESAMPLES // 40]


def _report(path: Path, alternation: Alternation, name: str) -> None:
    result = alternation.describe(name)
    path.write_text(json.dumps(result))
    low, high = result["interval_percent"]
    click.echo(
        f"{name}{', strict' if alternation.strict else ''}: {result['step_us']:.2f} us per step, "
        f"{result['cost_us']:+.2f} us watched ({result['cost_percent']:+.2f}%, 95% interval "
        f"{low:+.2f} to {high:+.2f}%, {result['pairs']} pairs)"
    )


_SECONDS_OPTION: Final = click.option(
    "--seconds", default=math.inf, help="End the measurement after this time."
)
_BLOCK_OPTION: Final = click.option("--block", default=48, help="Steps per block.")
_OUTPUT_OPTION: Final = click.option(
    "--out", "path", type=click.Path(path_type=Path), required=True
)


@click.group()
def measure_cost() -> None:
    """Measure the cost of the watch."""


@measure_cost.command("loop")
@_OUTPUT_OPTION
@click.option("--strict", is_flag=True, help="Check memory before each replay.")
@click.option("--tensors", default=200, help="Tensors from outside that the graph reads.")
@click.option("--blocks", default=800)
def measure_loop(path: Path, strict: bool, tensors: int, blocks: int) -> None:
    """Replay one graph; a step is a replay."""
    alternation = Alternation(64, strict)
    inputs = [torch.ones(1, device="cuda") for _ in range(tensors)]
    total = torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for tensor in inputs:
            total.add_(tensor)
    for _ in range(blocks):
        torch.cuda.synchronize()
        for _ in range(alternation.block):
            alternation.start_step()
            graph.replay()
    _report(path, alternation, f"loop, {tensors} tensors")


@measure_cost.command("server")
@_OUTPUT_OPTION
@_SECONDS_OPTION
@_BLOCK_OPTION
@click.option("--steps", default=12_000)
def measure_server(path: Path, seconds: float, block: int, steps: int) -> None:
    """Serve batches with the example server."""
    from collectors.examples.server import SIZES, Decoder, Server, draw_batch_sizes

    alternation = Alternation(block, seconds=seconds)
    with suppress(TimeOverError), torch.inference_mode():
        server = Server(Decoder(1024, 4, 2 * max(SIZES), 1), SIZES, labels=False)
        sizes = draw_batch_sizes(steps // (2 * block), max(SIZES))
        for size in sizes:
            for _ in range(3):
                # Libraries choose kernels at the first batch of a size.
                server.run_step(torch.randint(0, 1024, (size,), device="cuda"))
            # Neighbouring blocks serve the same batch size.
            for _ in range(2 * alternation.block):
                alternation.start_step()
                tokens = torch.randint(0, 1024, (size,), device="cuda")
                server.run_step(tokens).argmax(dim=1).tolist()
    _report(path, alternation, "server")


@measure_cost.command("script")
@_OUTPUT_OPTION
@_SECONDS_OPTION
@click.option("--step", required=True, help="Class and method of the script that begins a step.")
@_BLOCK_OPTION
@click.argument("script", type=click.Path(path_type=Path, exists=True))
def measure_script(path: Path, seconds: float, step: str, block: int, script: Path) -> None:
    """Run ``main`` of a script."""
    alternation = Alternation(block, seconds=seconds)
    spec = importlib.util.spec_from_file_location("measured_script", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    class_name, _, method_name = step.partition(".")
    target = getattr(module, class_name)
    setattr(target, method_name, _count_steps(getattr(target, method_name), alternation))
    with suppress(TimeOverError):
        module.main()
    _report(path, alternation, script.parent.name)


def _count_steps(method: Callable[..., Any], alternation: Alternation) -> Callable[..., Any]:
    @functools.wraps(method)
    def count(*args: Any, **kwargs: Any) -> Any:
        alternation.start_step()
        return method(*args, **kwargs)

    return count


if __name__ == "__main__":
    measure_cost()
