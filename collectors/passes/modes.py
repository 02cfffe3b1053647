"""The execution modes: how a step is made to run through graphs, without a change to its code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.utils.hooks import RemovableHandle

from collectors.parallel import MEMORY_FACTOR
from collectors.passes.capture_listener import executable_of
from collectors.process.results import read_result
from collectors.workloads import Step
from graphviz_dash.bundle import parts
from graphviz_dash.errors import GraphvizDashError
from graphviz_dash.model.parallel import ParallelPlan
from graphviz_dash.model.run import ExecutionMode

GRAPHED: Final = "reduce-overhead"
"""The mode of torch.compile that captures graphs: cudagraph trees."""

COMPILED: Final = {
    ExecutionMode.COMPILE: GRAPHED,
    ExecutionMode.COMPILE_DEFAULT: "default",
    ExecutionMode.COMPILE_GRAPH: "default",
}
"""The mode of torch.compile in those of ours that compile."""

_RECORD_STEPS = 4
"""Steps in which torch.compile's cudagraph trees, once warmed up, record and replay, and after
which a step that is to be captured is compiled anew no more."""


@dataclass(frozen=True)
class Call:
    """A module as one step called it."""

    module: nn.Module
    """The module itself."""
    depth: int
    """How many modules' calls it was called within; 0: from outside any other module."""
    samples: tuple[torch.Tensor, ...] | None
    """Copies of its arguments; None where make_graphed_callables could not take it: no parameters
    on the GPU, or an argument that is no CUDA tensor or was given by keyword."""
    grad_enabled: bool
    """Whether torch recorded gradients."""
    stream: int
    """The handle of the CUDA stream that was current."""


def _samples(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[torch.Tensor, ...] | None:
    tensors = all(isinstance(arg, torch.Tensor) and arg.is_cuda for arg in args)
    trained = any(parameter.is_cuda for parameter in module.parameters())
    if not (args and tensors and trained) or kwargs:
        return None
    # Copies without history: an argument's own would keep the gradient accumulators of this
    # step's stream alive, and a capture on another stream would have to wait for them.
    return tuple(arg.detach().clone().requires_grad_(arg.requires_grad) for arg in args)


def compile_modules(step: Step, mode: str) -> None:
    """Compiles the outermost modules in a mode of torch.compile and runs a step, which compiles but
    captures nothing yet.

    Raises:
        GraphvizDashError: the step calls no module to compile, or calls them on several streams.
    """
    roots = _roots(step)
    streams = {call.stream for call in roots}
    if mode == GRAPHED and len(streams) > 1:
        # With torch 2.11 on an H200 the same step gave other values in one run of eight where each
        # call was marked as a step of its own, and otherwise ended in a segmentation fault.
        raise GraphvizDashError(
            f"The step calls its modules on {len(streams)} streams. The graphs that torch.compile "
            "makes (cudagraph trees) share their memory on the assumption of one stream, so this "
            "mode would compute wrong values or crash; use compile-graph, compile-default, graph, "
            "callables or partial."
        )
    for call in roots:
        call.module.forward = torch.compile(_called(call.module.forward), mode=mode)
    step()


def _called(forward: Callable[..., Any]) -> Callable[..., Any]:
    """``forward`` behind a function of ours.

    The compiler skips functions that are defined in torch, as nn.Sequential.forward is; one that
    is called from elsewhere it takes in.
    """

    def call_forward(*args: Any, **kwargs: Any) -> Any:
        return forward(*args, **kwargs)

    return call_forward


def make_ready(mode: ExecutionMode, step: Step, plan: str | None = None) -> Step:
    """What runs one iteration of ``step`` in ``mode``; graphs are captured and launched once.

    For a mode in COMPILED the modules must be compiled already (:func:`compile_modules`). ``plan``
    is the folder of the pass that planned the step, where the mode is planned; without it the step
    is planned here.

    Raises:
        GraphvizDashError: the step calls no module that the mode could capture.
    """
    if mode.is_planned:
        return _parallel(step, plan)
    return _MAKERS[mode](step)


class Replays:
    """The graphs of a step that has variants, each captured and launched once; a call replays the
    first. They live as long as this does."""

    def __init__(self, variants: Mapping[str, Step]) -> None:
        self.names = tuple(variants)
        self._graphs = [_captured(step) for step in variants.values()]
        # Bound once more: a recorder watches the first launch only.
        self._replay = self._graphs[0].replay

    def __call__(self) -> object:
        """Replays the first graph."""
        return self._replay()


def _whole_step(step: Step) -> Step:
    variants = getattr(step, "variants", None)
    if variants is not None:
        return Replays(variants)
    graph = _captured(step)
    replay: Step = graph.replay
    return replay


def _compiled_whole_step(step: Step) -> Step:
    """Captures a compiled step once its guards hold: a second or third call may be compiled anew,
    for a number that changed or gradients that are there now, and nothing can be in a capture."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(_RECORD_STEPS):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    return _whole_step(step)


def _parallel(step: Step, folder: str | None) -> Step:
    # Imported here: no other mode needs what watches operators.
    from collectors.parallel.graph import ParallelGraph
    from collectors.parallel.plan import plan_step

    if folder is None:
        planned: ParallelPlan | None = plan_step(step, MEMORY_FACTOR)
    else:
        planned = read_result(parts.PARALLEL, Path(folder))
    if planned is None:
        raise GraphvizDashError("The pass that plans the step left no plan.")
    graph = ParallelGraph(step, planned)
    graph.graph.owner = graph  # as in _captured; what was captured besides lives in it too
    graph.replay()
    torch.cuda.synchronize()
    # Bound once more: a recorder watches the first launch only.
    replay: Step = graph.graph.replay
    return replay


def _captured(step: Step) -> Any:
    """The graph of ``step``, launched once."""
    adjust = getattr(step, "adjust", None)
    # Nodes can be disabled by the handles that they have in the graph, so it must be kept.
    graph: Any = torch.cuda.CUDAGraph(keep_graph=adjust is not None)
    with torch.cuda.graph(graph):
        step()
    # A replay works on the step's own memory, pinned and of libraries too, which must live as long.
    graph.step = step
    if adjust is not None:
        graph.instantiate()
        executable = executable_of(graph)
        if executable is None:
            raise GraphvizDashError(
                "This workload changes its executable graph, which this torch does not give."
            )
        adjust(executable)
    graph.replay()
    torch.cuda.synchronize()
    return graph


def _graph_modules(calls: list[Call]) -> None:
    """make_graphed_callables on the modules, in the order they were called; it patches them."""
    samples = tuple(call.samples for call in calls)
    with torch.set_grad_enabled(calls[0].grad_enabled):
        torch.cuda.make_graphed_callables(tuple(call.module for call in calls), samples)


def _roots(step: Step) -> list[Call]:
    """The outermost modules with parameters that a step calls."""
    return _checked([call for call in calls_of(step) if call.depth == 0 and call.samples])


def _parts(step: Step) -> list[Call]:
    """The layers: of each outermost module the parts one level down, containers opened."""
    calls = [call for call in calls_of(step) if call.samples]
    wanted = {
        id(part)
        for call in calls
        if call.depth == 0
        for child in call.module.children()
        for part in (child if isinstance(child, nn.ModuleList | nn.Sequential) else [child])
    }
    return _checked([call for call in calls if id(call.module) in wanted])


def _checked(calls: list[Call]) -> list[Call]:
    once = list({id(call.module): call for call in calls}.values())
    if not once:
        raise GraphvizDashError(
            "The step calls no torch.nn.Module with CUDA parameters and tensors as its positional "
            "arguments, so there is nothing that this mode could capture."
        )
    return once


def calls_of(step: Step) -> list[Call]:
    """Runs ``step`` twice and returns the module calls of the second, in the order they began.

    The first run finds the outermost modules; hooks that see keyword arguments can only be put on
    modules that are known.
    """
    roots: dict[int, nn.Module] = {}
    open_modules = 0

    def enter(module: nn.Module, _args: Any) -> None:
        nonlocal open_modules
        if open_modules == 0:
            roots[id(module)] = module
        open_modules += 1

    def leave(_module: nn.Module, _args: Any, _result: Any) -> None:
        nonlocal open_modules
        open_modules -= 1

    with _removed(
        register_module_forward_pre_hook(enter),
        register_module_forward_hook(leave, always_call=True),
    ):
        step()

    calls: list[Call] = []
    depth = 0

    def before(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        nonlocal depth
        samples = _samples(module, args, kwargs)
        stream = torch.cuda.current_stream().cuda_stream
        calls.append(Call(module, depth, samples, torch.is_grad_enabled(), stream))
        depth += 1

    def after(_module: nn.Module, _args: Any, _result: Any) -> None:
        nonlocal depth
        depth -= 1

    modules = {id(part): part for root in roots.values() for part in root.modules()}.values()
    with _removed(
        *(part.register_forward_pre_hook(before, with_kwargs=True) for part in modules),
        *(part.register_forward_hook(after, always_call=True) for part in modules),
    ):
        step()
    torch.cuda.synchronize()
    return calls


def _eager(step: Step) -> Step:
    return step


def _graphed_roots(step: Step) -> Step:
    _graph_modules(_roots(step))
    return _launched(step)


def _graphed_parts(step: Step) -> Step:
    _graph_modules(_parts(step))
    return _launched(step)


def _compiled(step: Step) -> Step:
    for _ in range(_RECORD_STEPS):
        step()
    return _launched(step)


def _launched(step: Step) -> Step:
    """``step``, run once to its end: the first launch of its graphs is over."""
    step()
    torch.cuda.synchronize()
    return step


_MAKERS: Final[Mapping[ExecutionMode, Callable[[Step], Step]]] = {
    ExecutionMode.EAGER: _eager,
    ExecutionMode.GRAPH: _whole_step,
    ExecutionMode.CALLABLES: _graphed_roots,
    ExecutionMode.PARTIAL: _graphed_parts,
    ExecutionMode.COMPILE_DEFAULT: _launched,
    ExecutionMode.COMPILE_GRAPH: _compiled_whole_step,
    ExecutionMode.COMPILE: _compiled,
}
"""How a step is made to run in each mode that is collected; the rest is properties of the mode."""


@contextmanager
def _removed(*hooks: RemovableHandle) -> Iterator[None]:
    """Takes the hooks away at the end, whatever happened."""
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
