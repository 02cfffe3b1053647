"""Steps that torch.compile cannot make one replay of, each with the rule that it breaks and the
line, marked ``# cause``, at which it is to be fixed; and steps that break none.

``CAUSES`` and ``CLEAN`` have, by name, a function that builds the step on the current GPU.
"""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import torch
from torch import nn
from torch._dynamo import config as dynamo_config

from graphviz_dash.model.compile_rules import CompileRuleId as Rule

Step = Callable[[], object]


@dataclass(frozen=True)
class Case:
    """A step that breaks a rule."""

    rule: Rule
    """The rule."""
    build: Callable[[], Step]
    """Builds the step."""
    line: int
    """The line at which it is to be fixed."""
    is_ended: bool = False
    """True if an error ends it, which can break the process's GPU."""


CAUSES: Final[dict[str, Case]] = {}
CLEAN: Final[dict[str, Callable[[], Step]]] = {}
SIZE: Final = 256


def causes(
    rule: Rule, is_ended: bool = False
) -> Callable[[Callable[[], Step]], Callable[[], Step]]:
    """Adds the builder of a step that breaks ``rule``."""

    def add(build: Callable[[], Step]) -> Callable[[], Step]:
        lines, first = inspect.getsourcelines(build)
        marked = [at for at, text in enumerate(lines, first) if text.rstrip().endswith("# cause")]
        (line,) = marked
        CAUSES[build.__name__] = Case(rule, build, line, is_ended)
        return build

    return add


def clean(build: Callable[[], Step]) -> Callable[[], Step]:
    """Adds the builder of a step that breaks no rule."""
    CLEAN[build.__name__] = build
    return build


def graphed(function: Callable[..., object], **options: object) -> Callable[..., object]:
    """``function`` compiled so that CUDA graphs are recorded."""
    return torch.compile(function, mode="reduce-overhead", **options)  # type: ignore[call-overload]


def tensor(*sizes: int) -> torch.Tensor:
    """Random numbers on the GPU."""
    return torch.randn(*(sizes or (SIZE, SIZE)), device="cuda")


def weights() -> list[nn.Parameter]:
    """Parameters of four layers."""
    return [nn.Parameter(tensor() * 0.01, requires_grad=False) for _ in range(4)]


def layers(x: torch.Tensor, own: list[nn.Parameter]) -> torch.Tensor:
    """A few products and reductions."""
    for weight in own:
        x = torch.relu(x @ weight).sum(-1, keepdim=True) + x
    return x


def called(function: Callable[..., object], *inputs: torch.Tensor) -> Step:
    """A step that calls ``function``, compiled, with the same inputs each time."""
    compiled = graphed(function)
    return lambda: compiled(*inputs)


@causes(Rule.PYTHON_SIDE_EFFECT)
def prints() -> Step:
    own = weights()

    def step(x: torch.Tensor) -> torch.Tensor:
        x = layers(x, own)
        print(end="")  # cause
        return layers(x, own)

    return called(step, tensor())


@causes(Rule.PYTHON_SIDE_EFFECT)
def logs() -> Step:
    own, log = weights(), logging.getLogger("model")

    def step(x: torch.Tensor) -> torch.Tensor:
        x = layers(x, own)
        log.info("half")  # cause
        return layers(x, own)

    return called(step, tensor())


@causes(Rule.PYTHON_SIDE_EFFECT)
def warns() -> Step:
    own = weights()

    def step(x: torch.Tensor) -> torch.Tensor:
        x = layers(x, own)
        warnings.warn("half", stacklevel=1)  # cause
        return layers(x, own)

    return called(step, tensor())


@causes(Rule.VALUE_READ)
def reads_item() -> Step:
    own = weights()

    def step(x: torch.Tensor) -> torch.Tensor:
        x = layers(x, own)
        total = x.sum().item()  # cause
        return layers(x, own) * total

    return called(step, tensor())


@causes(Rule.VALUE_READ)
def reads_list() -> Step:
    own = weights()

    def step(x: torch.Tensor) -> torch.Tensor:
        x = layers(x, own)
        first = x[0, :2].tolist()  # cause
        return layers(x, own) * first[0]

    return called(step, tensor())


@causes(Rule.VALUE_READ)
def reads_float() -> Step:
    own = weights()

    def step(x: torch.Tensor) -> torch.Tensor:
        x = layers(x, own)
        total = float(x.sum())  # cause
        return layers(x, own) * total

    return called(step, tensor())


@causes(Rule.VALUE_READ)
def branches() -> Step:
    own = weights()

    def step(x: torch.Tensor) -> torch.Tensor:
        x = layers(x, own)
        if x.sum() > 0:  # cause
            x = x * 2
        return layers(x, own)

    return called(step, tensor())


@causes(Rule.DISABLED_FUNCTION)
def calls_disabled() -> Step:
    own = weights()

    @torch.compiler.disable
    def outside(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    def step(x: torch.Tensor) -> torch.Tensor:
        x = layers(x, own)
        x = outside(x)  # cause
        return layers(x, own)

    return called(step, tensor())


@causes(Rule.DISABLED_FUNCTION)
def breaks_by_hand() -> Step:
    own = weights()

    def step(x: torch.Tensor) -> torch.Tensor:
        x = layers(x, own)
        torch._dynamo.graph_break()  # cause
        return layers(x, own)

    return called(step, tensor())


@causes(Rule.GRAPH_BREAK)
def calls_unknown() -> Step:
    own = weights()

    def step(x: torch.Tensor) -> torch.Tensor:
        x = layers(x, own)
        torch.cuda.synchronize()  # cause
        return layers(x, own)

    return called(step, tensor())


@causes(Rule.RECOMPILING)
def changes_text() -> Step:
    own, calls = weights(), iter(range(1_000))

    def step(x: torch.Tensor, word: str) -> torch.Tensor:
        return layers(x, own) + len(word)  # cause

    compiled, x = graphed(step, dynamic=False), tensor()
    return lambda: compiled(x, "x" * (next(calls) % 4))


@causes(Rule.RECOMPILE_LIMIT)
def changes_too_often() -> Step:
    own, calls = weights(), iter(range(1_000))

    def step(x: torch.Tensor, word: str) -> torch.Tensor:
        return layers(x, own) + len(word)  # cause

    compiled, x = graphed(step, dynamic=False), tensor()
    return lambda: compiled(x, "x" * (next(calls) % 12))


# The longest by far: Inductor compiles C++ for it, 52 of the 93 s that all took on an H200's host.
@causes(Rule.CPU_WORK)
def scales_on_cpu() -> Step:
    own = weights()

    def step(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        x = layers(x, own)
        factor = (scale + 1).sum()  # cause
        return layers(x, own) * factor.cuda()

    return called(step, tensor(), torch.ones(4, 4))


@causes(Rule.COPY_BETWEEN_DEVICES)
def copies_to_cpu() -> Step:
    own = weights()

    def step(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = layers(x, own)
        mean = x.mean().cpu()  # cause
        return layers(x, own), mean

    return called(step, tensor())


@causes(Rule.COPY_BETWEEN_DEVICES)
def copies_from_cpu() -> Step:
    own = weights()

    def step(x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        x = layers(x, own)
        near = table.to("cuda")  # cause
        return layers(x, own) + near

    return called(step, tensor(), torch.ones(SIZE))


@causes(Rule.UNSAFE_OPERATOR)
def calls_unsafe() -> Step:
    own = weights()

    @torch.library.custom_op("causes::twice", mutates_args=(), tags=(torch.Tag.cudagraph_unsafe,))
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @twice.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    def step(x: torch.Tensor) -> torch.Tensor:
        x = layers(x, own)
        x = twice(x)  # cause
        return layers(x, own)

    return called(step, tensor())


@contextmanager
def sizes_from_data() -> Iterator[None]:
    """Operators whose sizes only the GPU knows are captured, and end no graph."""
    with dynamo_config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        yield


@causes(Rule.SIZE_FROM_DATA)
def finds_nonzero() -> Step:
    own = weights()

    def step(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = layers(x, own)
        index = torch.nonzero(x > 1e9)  # cause
        return layers(x, own), index

    return called(step, tensor())


@causes(Rule.SIZE_FROM_DATA)
def masks() -> Step:
    own = weights()

    def step(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = layers(x, own)
        chosen = torch.masked_select(x, x > 1e9)  # cause
        return layers(x, own), chosen

    return called(step, tensor())


@causes(Rule.MUTATED_INPUT)
def adds_to_input() -> Step:
    own = weights()

    def step(x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        cache.mul_(0.5).add_(x)  # cause
        return layers(cache, own)

    return called(step, tensor(), tensor())


@causes(Rule.MUTATED_INPUT)
def sets_element() -> Step:
    own = weights()

    def step(x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        x = layers(x, own)
        cache[0] = x[0]  # cause
        return layers(x, own)

    return called(step, tensor(), tensor())


@causes(Rule.MUTATED_INPUT)
def writes_output() -> Step:
    own = weights()

    def step(x: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
        x = layers(x, own)
        torch.mul(x, 2, out=result)  # cause
        return layers(x, own)

    return called(step, tensor(), tensor())


@causes(Rule.MUTATED_INPUT)
def adds_in_place() -> Step:
    own = weights()

    def step(x: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        x = layers(x, own)
        total += x  # cause
        return layers(x, own)

    return called(step, tensor(), tensor())


@causes(Rule.CHANGING_SIZES)
def changes_sizes() -> Step:
    own, calls = weights(), iter(range(1_000))
    inputs = [tensor(64 + 8 * at, SIZE) for at in range(12)]
    compiled = graphed(lambda x: layers(x, own))

    def step() -> object:
        return compiled(inputs[next(calls) % len(inputs)])  # cause

    return step


@causes(Rule.MOVED_INPUT)
def moves_parameter() -> Step:
    layer, x, calls = nn.Linear(SIZE, SIZE).cuda(), tensor(), iter(range(1_000))
    compiled = graphed(layer)

    def step() -> object:
        if next(calls) in (6, 9):
            layer.weight.data = layer.weight.data.clone()
        with torch.no_grad():
            return compiled(x)  # cause

    return step


@causes(Rule.PENDING_BACKWARD)
def keeps_outputs() -> Step:
    model = nn.Sequential(*(nn.Linear(SIZE, SIZE) for _ in range(4))).cuda()
    compiled, x, kept = graphed(model), tensor(), list[object]()

    def step() -> None:
        kept.append(compiled(x))  # cause
        del kept[:-3]

    return step


@causes(Rule.OVERWRITTEN_OUTPUT, is_ended=True)
def uses_overwritten() -> Step:
    own, x = weights(), tensor()
    compiled = graphed(lambda x: layers(x, own))

    def step() -> object:
        with torch.no_grad():
            first = compiled(x)
            compiled(x + 1)
        assert isinstance(first, torch.Tensor)
        return first.sum()  # cause

    return step


@causes(Rule.CAPTURE_FAILED, is_ended=True)
def synchronises() -> Step:
    own = weights()

    def step(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.svdvals(layers(x, own))  # cause

    return called(step, tensor())


@clean
def products() -> Step:
    own = weights()
    return called(lambda x: layers(layers(x, own), own), tensor())


@clean
def inference() -> Step:
    model = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True, dropout=0.0).cuda().eval()
    compiled, x = graphed(model), tensor(4, 32, 128)

    def step() -> object:
        with torch.no_grad():
            return compiled(x)

    return step


@clean
def training() -> Step:
    model = nn.Sequential(nn.Linear(SIZE, SIZE), nn.GELU(), nn.Linear(SIZE, SIZE)).cuda()
    compiled, x = graphed(model), tensor()

    def step() -> object:
        result = compiled(x)
        assert isinstance(result, torch.Tensor)
        result.square().mean().backward()
        gradients = [parameter.grad for parameter in model.parameters()]
        model.zero_grad()
        return gradients

    return step
