"""Run a step through graphs in each execution mode, without changing its code."""

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
from collectors.passes.capture_listener import get_executable
from collectors.process.results import read_result
from collectors.workloads import Step
from graphviz_dash.bundle import parts
from graphviz_dash.errors import GraphvizDashError
from graphviz_dash.model.parallel import ParallelPlan
from graphviz_dash.model.run import ExecutionMode

GRAPHED: Final = "reduce-overhead"
"""torch.compile mode that captures graphs (CUDA graph trees)."""

COMPILED: Final = {
    ExecutionMode.COMPILE: GRAPHED,
    ExecutionMode.COMPILE_DEFAULT: "default",
    ExecutionMode.COMPILE_GRAPH: "default",
}

_RECORD_STEPS = 4
"""Steps until torch.compile's warmed-up CUDA graph trees replay without recompiling."""


@dataclass(frozen=True)
class ModuleCall:
    """A module call in one step."""

    module: nn.Module
    depth: int
    """Number of enclosing module calls; 0 for an outermost module."""
    samples: tuple[torch.Tensor, ...] | None
    """Copies of its arguments, or None if make_graphed_callables cannot capture it."""
    grad_enabled: bool
    stream: int


def _copy_samples(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[torch.Tensor, ...] | None:
    are_tensors = all(isinstance(arg, torch.Tensor) and arg.is_cuda for arg in args)
    has_parameters = any(parameter.is_cuda for parameter in module.parameters())
    if not (args and are_tensors and has_parameters) or kwargs:
        return None
    # Detach copies: an argument's history keeps gradient accumulators of this step's stream alive,
    # and a capture on another stream would have to wait for them.
    return tuple(arg.detach().clone().requires_grad_(arg.requires_grad) for arg in args)


def compile_modules(step: Step, mode: str) -> None:
    """Compile the outermost modules in a torch.compile mode and run a step without captures.

    Raises:
        GraphvizDashError: The step calls no module, or calls modules on several streams.
    """
    roots = _find_roots(step)
    streams = {call.stream for call in roots}
    if mode == GRAPHED and len(streams) > 1:
        # With torch 2.11 on an H200, one run in eight returned different values if each call was
        # marked as a separate step. Otherwise it crashed with a segmentation fault.
        raise GraphvizDashError(
            f"The step calls its modules on {len(streams)} streams. torch.compile's CUDA graph "
            "trees share memory and assume a single stream, so this mode would compute wrong "
            "values or crash. Use compile-graph, compile-default, graph, callables or partial."
        )
    for call in roots:
        call.module.forward = torch.compile(_wrap_forward(call.module.forward), mode=mode)
    step()


def _wrap_forward(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``forward``; the compiler skips functions defined in torch otherwise."""

    def call_forward(*args: Any, **kwargs: Any) -> Any:
        return forward(*args, **kwargs)

    return call_forward


def prepare_mode(mode: ExecutionMode, step: Step, plan: str | None = None) -> Step:
    """Return a callable for one iteration of ``step`` in ``mode``; captures and launches graphs
    once.

    Modes in COMPILED need :func:`compile_modules` first. ``plan`` is the folder of the plan pass;
    without it the step is planned here.

    Raises:
        GraphvizDashError: The step calls no module that the mode could capture.
    """
    if mode.is_planned:
        return _prepare_parallel(step, plan)
    return _PREPARERS[mode](step)


class VariantReplays:
    """Graphs of a step with variants, each launched once; a call replays the first."""

    def __init__(self, variants: Mapping[str, Step]) -> None:
        self.names = tuple(variants)
        self._graphs = [_capture_graph(step) for step in variants.values()]
        # Bind again: a recorder observes only the first launch.
        self._replay = self._graphs[0].replay

    def __call__(self) -> object:
        """Replay the first graph."""
        return self._replay()


def _prepare_whole_step(step: Step) -> Step:
    variants = getattr(step, "variants", None)
    if variants is not None:
        return VariantReplays(variants)
    graph = _capture_graph(step)
    replay: Step = graph.replay
    return replay


def _prepare_compiled_whole_step(step: Step) -> Step:
    """Capture a compiled step after its second or third call, which may still recompile."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(_RECORD_STEPS):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    return _prepare_whole_step(step)


def _prepare_parallel(step: Step, folder: str | None) -> Step:
    # Import late: no other mode needs the operator observers.
    from collectors.parallel.graph import ParallelGraph
    from collectors.parallel.plan import plan_step

    if folder is None:
        planned: ParallelPlan | None = plan_step(step, MEMORY_FACTOR)
    else:
        planned = read_result(parts.PARALLEL, Path(folder))
    if planned is None:
        raise GraphvizDashError("The plan pass wrote no plan.")
    graph = ParallelGraph(step, planned)
    graph.graph.owner = graph  # as in _captured; the graph also owns other captured objects
    graph.replay()
    torch.cuda.synchronize()
    # Bind again: a recorder observes only the first launch.
    replay: Step = graph.graph.replay
    return replay


def _capture_graph(step: Step) -> Any:
    adjust = getattr(step, "adjust", None)
    # Disabling nodes needs their handles in the graph, so keep it.
    graph: Any = torch.cuda.CUDAGraph(keep_graph=adjust is not None)
    with torch.cuda.graph(graph):
        step()
    # Replays access the step's memory, including pinned and library memory, so keep the step alive.
    graph.step = step
    if adjust is not None:
        graph.instantiate()
        executable = get_executable(graph)
        if executable is None:
            raise GraphvizDashError(
                "This workload modifies its executable graph, which this torch version does not "
                "expose."
            )
        adjust(executable)
    graph.replay()
    torch.cuda.synchronize()
    return graph


def _make_graphed(calls: list[ModuleCall]) -> None:
    """Call make_graphed_callables, which patches the modules, in call order."""
    samples = tuple(call.samples for call in calls)
    with torch.set_grad_enabled(calls[0].grad_enabled):
        torch.cuda.make_graphed_callables(tuple(call.module for call in calls), samples)


def _find_roots(step: Step) -> list[ModuleCall]:
    return _select_unique(
        [call for call in record_module_calls(step) if call.depth == 0 and call.samples]
    )


def _find_parts(step: Step) -> list[ModuleCall]:
    """Return the parts one level below each outermost module, with containers expanded."""
    calls = [call for call in record_module_calls(step) if call.samples]
    layer_ids = {
        id(part)
        for call in calls
        if call.depth == 0
        for child in call.module.children()
        for part in (child if isinstance(child, nn.ModuleList | nn.Sequential) else [child])
    }
    return _select_unique([call for call in calls if id(call.module) in layer_ids])


def _select_unique(calls: list[ModuleCall]) -> list[ModuleCall]:
    unique = list({id(call.module): call for call in calls}.values())
    if not unique:
        raise GraphvizDashError(
            "The step calls no torch.nn.Module with CUDA parameters and positional tensor "
            "arguments, so this mode has nothing to capture."
        )
    return unique


def record_module_calls(step: Step) -> list[ModuleCall]:
    """Run ``step`` twice and return the module calls of the second run in start order."""
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

    with _remove_hooks(
        register_module_forward_pre_hook(enter),
        register_module_forward_hook(leave, always_call=True),
    ):
        step()

    calls: list[ModuleCall] = []
    depth = 0

    def before(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        nonlocal depth
        samples = _copy_samples(module, args, kwargs)
        stream = torch.cuda.current_stream().cuda_stream
        calls.append(ModuleCall(module, depth, samples, torch.is_grad_enabled(), stream))
        depth += 1

    def after(_module: nn.Module, _args: Any, _result: Any) -> None:
        nonlocal depth
        depth -= 1

    modules = {id(part): part for root in roots.values() for part in root.modules()}.values()
    with _remove_hooks(
        *(part.register_forward_pre_hook(before, with_kwargs=True) for part in modules),
        *(part.register_forward_hook(after, always_call=True) for part in modules),
    ):
        step()
    torch.cuda.synchronize()
    return calls


def _prepare_eager(step: Step) -> Step:
    return step


def _prepare_graphed_roots(step: Step) -> Step:
    _make_graphed(_find_roots(step))
    return _launch_once(step)


def _prepare_graphed_parts(step: Step) -> Step:
    _make_graphed(_find_parts(step))
    return _launch_once(step)


def _prepare_compiled(step: Step) -> Step:
    for _ in range(_RECORD_STEPS):
        step()
    return _launch_once(step)


def _launch_once(step: Step) -> Step:
    step()
    torch.cuda.synchronize()
    return step


_PREPARERS: Final[Mapping[ExecutionMode, Callable[[Step], Step]]] = {
    ExecutionMode.EAGER: _prepare_eager,
    ExecutionMode.GRAPH: _prepare_whole_step,
    ExecutionMode.CALLABLES: _prepare_graphed_roots,
    ExecutionMode.PARTIAL: _prepare_graphed_parts,
    ExecutionMode.COMPILE_DEFAULT: _launch_once,
    ExecutionMode.COMPILE_GRAPH: _prepare_compiled_whole_step,
    ExecutionMode.COMPILE: _prepare_compiled,
}


@contextmanager
def _remove_hooks(*hooks: RemovableHandle) -> Iterator[None]:
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
