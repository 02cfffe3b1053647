"""Observe calls that are not operators: waits, seeds, events, captures, and functions that make or
print tensors."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import torch
from torch.overrides import TorchFunctionMode

from collectors.doctor.events import Event, Violation
from collectors.doctor.watch import (
    OperatorObserver,
    StepWatch,
    replace_violation,
    suppress_refusal_warning,
)
from graphviz_dash.model.doctor import RuleId

_LEAKED_GRAPHS: Final[list[Any]] = []
"""Graphs that failed to start inside another capture; destroying them crashes the process."""

_WAITS: Final[tuple[tuple[Any, str, str, object], ...]] = (
    (torch.cuda, "synchronize", "torch.cuda.synchronize", None),
    (torch.cuda.Stream, "synchronize", "Stream.synchronize", None),
    (torch.cuda.Stream, "query", "Stream.query", True),
    (torch.cuda.Event, "synchronize", "Event.synchronize", None),
    (torch.cuda.Event, "query", "Event.query", True),
    (torch.cuda.Event, "elapsed_time", "Event.elapsed_time", 0.0),
)
"""Owner, attribute, name, and the answer to an illegal call."""

_SEEDS: Final[tuple[tuple[Any, str, str, object], ...]] = (
    (torch, "manual_seed", "torch.manual_seed", None),
    (torch.cuda, "manual_seed", "torch.cuda.manual_seed", None),
    (torch.cuda, "manual_seed_all", "torch.cuda.manual_seed_all", None),
)

_HEALTH_CHECKS: Final = (
    "_accelerator_graph_capture_health_check",
    "_cuda_graph_capture_health_check",
)

_PIN: Final = "Tensor.pin_memory"
_MAKERS: Final = {torch.tensor: "torch.tensor", torch.as_tensor: "torch.as_tensor"}
_PRINTERS: Final = {torch.Tensor.__repr__: "Tensor.__repr__"}


class FunctionObserver(TorchFunctionMode):
    """Observes functions that copy or wait inside torch without a visible operator."""

    def __init__(self, watch: StepWatch) -> None:
        super().__init__()
        self._watch = watch

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        keyword_arguments = kwargs or {}
        name = _MAKERS.get(func) or _PRINTERS.get(func)
        if name is None or self._watch.is_suppressed():
            return func(*args, **keyword_arguments)
        rule = RuleId.UNPINNED_COPY if func in _MAKERS else RuleId.SYNC_VALUE
        if func in _PRINTERS and not args[0].is_cuda:
            return func(*args, **keyword_arguments)
        # A tensor made from a GPU tensor is copied there, without the CPU.
        if func in _MAKERS and isinstance(args[0] if args else None, torch.Tensor):
            return func(*args, **keyword_arguments)
        return _observe_call(self._watch, name, rule, "<tensor>", func, args, keyword_arguments)


def _observe_call(
    watch: StepWatch,
    name: str,
    rule: RuleId | None,
    skipped: object,
    original: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    spot = watch.find_location(3)
    event = Event(
        op=name,
        spot=spot,
        stream=watch.describe_stream(),
        captured=watch.is_captured(),
        thread=watch.get_thread_name(),
        on_gpu=False,
    )
    suspect = replace_violation(event, Violation(rule) if rule else None)
    if (name, spot) in watch.answered:
        watch.record_event(event)
        recorded = watch.get_next_answer((name, spot))
        watch.add_allocated(recorded)
        return skipped if recorded is None else recorded
    try:
        with watch.suppress():
            result = original(*args, **kwargs)
    except RuntimeError as error:
        watch.record_event(watch.classify_failure(suspect, error))
        raise
    watch.add_allocated(result)
    on_cpu = isinstance(result, torch.Tensor) and not result.is_cuda
    if watch.capture or on_cpu:
        watch.record_event(event)
        return result
    watch.record_event(suspect)
    if isinstance(result, torch.Tensor):
        with watch.suppress():
            watch.recorded[name, spot].append(result.detach().clone())
    return result


@contextmanager
def _observe_calls(watch: StepWatch) -> Iterator[None]:
    with ExitStack() as undo:

        def put(owner: Any, attribute: str, wrapper: Callable[..., Any]) -> None:
            undo.callback(setattr, owner, attribute, getattr(owner, attribute))
            setattr(owner, attribute, wrapper)

        def watch_call(
            owner: Any, attribute: str, name: str, rule: RuleId | None, skipped: object
        ) -> None:
            original = getattr(owner, attribute)

            @functools.wraps(original)
            def call(*args: Any, **kwargs: Any) -> Any:
                if watch.is_suppressed():
                    return original(*args, **kwargs)
                return _observe_call(watch, name, rule, skipped, original, args, kwargs)

            put(owner, attribute, call)

        for owner, attribute, name, skipped in _WAITS:
            watch_call(owner, attribute, name, RuleId.SYNC_CALL, skipped)
        for owner, attribute, name, skipped in _SEEDS:
            watch_call(owner, attribute, name, RuleId.GENERATOR, skipped)
        put(torch.cuda.Event, "record", _wrap_record(watch, torch.cuda.Event.record))
        put(torch.cuda.Event, "wait", _wrap_wait(watch, torch.cuda.Event.wait))
        for attribute in _HEALTH_CHECKS:
            check = getattr(torch.optim.Optimizer, attribute, None)
            if check is not None:
                put(torch.optim.Optimizer, attribute, _wrap_health_check(watch, check))
        _observe_captures(watch, put)
        if watch.capture:
            put(torch.Tensor, "pin_memory", _wrap_pin(watch, torch.Tensor.pin_memory))
        yield


def _wrap_pin(watch: StepWatch, original: Callable[..., Any]) -> Callable[..., Any]:
    """Watch the thread of a data loader, which pins memory while the step is captured."""

    def pin(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        with watch.watch_foreign_call(_PIN):
            return original(tensor, *args, **kwargs)

    return pin


def _wrap_record(watch: StepWatch, original: Callable[..., Any]) -> Callable[..., Any]:
    def record(event: Any, stream: Any = None) -> Any:
        target = torch.cuda.current_stream() if stream is None else stream
        result = original(event, target)
        watch.clock.record_event(id(event), target.cuda_stream)
        return result

    return record


def _wrap_wait(watch: StepWatch, original: Callable[..., Any]) -> Callable[..., Any]:
    def wait(event: Any, stream: Any = None) -> Any:
        target = torch.cuda.current_stream() if stream is None else stream
        if watch.is_suppressed():
            original(event, target)
        else:
            _observe_call(watch, "Event.wait", None, None, original, (event, target), {})
        watch.clock.wait_event(id(event), target.cuda_stream)

    return wait


def _wrap_health_check(watch: StepWatch, original: Callable[..., Any]) -> Callable[..., Any]:
    def check(optimizer: torch.optim.Optimizer) -> None:
        groups = optimizer.param_groups
        can_capture = all(
            group.get("capturable", True)
            or not any(parameter.is_cuda for parameter in group["params"])
            for group in groups
        )
        if can_capture or watch.is_suppressed():
            original(optimizer)
            return
        name = f"{type(optimizer).__name__}.step"
        _observe_call(watch, name, RuleId.OPTIMIZER_CAPTURABLE, None, original, (optimizer,), {})

    return check


def _observe_captures(
    watch: StepWatch, put: Callable[[Any, str, Callable[..., Any]], None]
) -> None:
    skipped: set[int] = set()
    graph, context = torch.cuda.CUDAGraph, torch.cuda.graph
    begin, end, replay = graph.capture_begin, graph.capture_end, graph.replay
    enter, leave = context.__enter__, context.__exit__

    def nested(
        name: str, original: Callable[..., Any], this: Any, args: tuple[Any, ...], kwargs: Any
    ) -> Any:
        if watch.is_suppressed():
            return original(this, *args, **kwargs)

        def real(*_args: Any, **_kwargs: Any) -> bool:
            try:
                original(this, *args, **kwargs)
            except RuntimeError:
                _LEAKED_GRAPHS.append(this)
                raise
            return True

        if not _observe_call(watch, name, RuleId.TWO_CAPTURES, False, real, (), {}):
            skipped.add(id(this))
        return None

    def capture_begin(this: Any, *args: Any, **kwargs: Any) -> Any:
        return nested("CUDAGraph.capture_begin", begin, this, args, kwargs)

    def enter_context(this: Any) -> None:
        nested("torch.cuda.graph", enter, this, (), {})
        if id(this) in skipped:
            skipped.add(id(this.cuda_graph))

    def leave_context(this: Any, *error: Any) -> Any:
        return None if id(this) in skipped else leave(this, *error)

    def capture_end(this: Any) -> None:
        if id(this) not in skipped:
            end(this)

    def launch(this: Any) -> None:
        if id(this) not in skipped:
            replay(this)

    put(graph, "capture_begin", capture_begin)
    put(graph, "capture_end", capture_end)
    put(graph, "replay", launch)
    put(context, "__enter__", enter_context)
    put(context, "__exit__", leave_context)


@contextmanager
def observe(watch: StepWatch) -> Iterator[None]:
    """Send operators and observed calls of this thread and threads started meanwhile to
    ``watch``."""
    run = threading.Thread.run

    def watched_run(thread: threading.Thread) -> None:
        with FunctionObserver(watch), OperatorObserver(watch):
            run(thread)

    if not watch.capture:
        suppress_refusal_warning()
    with ExitStack() as undo:
        setattr(threading.Thread, "run", watched_run)  # noqa: B010  (a class of typeshed's)
        undo.callback(setattr, threading.Thread, "run", run)
        undo.enter_context(_observe_calls(watch))
        undo.enter_context(FunctionObserver(watch))
        undo.enter_context(OperatorObserver(watch))
        yield
