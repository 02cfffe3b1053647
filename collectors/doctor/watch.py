"""Observe every torch operator of a step with its line, stream and memory.

Covers the step's thread, autograd's threads and threads started meanwhile.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import torch
from cuda.bindings import runtime
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from collectors.doctor.classify import by_message, by_operator, first_line
from collectors.doctor.clock import Clock
from collectors.doctor.events import Event, StepLog, TensorUse, Violation
from collectors.doctor.places import Spot, spot_of, spot_of_thread
from graphviz_dash.model.doctor import Evidence, RuleId

Key: TypeAlias = tuple[str, Spot | None]
"""An operator or call, and its line."""

_NO_ANSWER = object()
_REFUSED = "called a synchronizing CUDA operation"
_REFUSE = 2


@dataclass
class Outside:
    """Memory from outside the step: a tensor and its first use."""

    tensor: torch.Tensor
    op: str
    spot: Spot | None

    @property
    def name(self) -> str:
        """Fallback name if the program has none."""
        return f"read by {self.op}" + (f" at {self.spot.place().text}" if self.spot else "")


@dataclass
class Watch:
    """Observation of one step, eager or captured."""

    origin: int
    """Handle of the step's stream."""
    capture: bool
    """The stream is being captured."""
    answered: frozenset[Key] = frozenset()
    """Earlier breaking calls that are answered to continue the capture."""
    answers: dict[Key, list[Any]] = field(default_factory=dict)
    """Results of those calls in an eager step, in call order."""
    registered: Sequence[torch.Generator] = ()
    """Generators registered with the graph."""
    log: StepLog = field(default_factory=StepLog)
    """Operators and calls of the step, in order."""
    broken: Event | None = None
    """First call that broke the capture, or None while valid."""
    outside: dict[int, Outside] = field(default_factory=dict)
    """External memory used by the step, by address."""

    def __post_init__(self) -> None:
        self.owner = threading.get_ident()
        self.clock = Clock(self.origin)
        self.recorded: dict[Key, list[Any]] = defaultdict(list)
        self.last_good: Spot | None = None
        self._made: set[int] = set()
        self._answered: dict[Key, int] = defaultdict(int)
        self._hushed = threading.local()

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Suppress recording within the block, for torch calls nested in another call."""
        before = self.is_quiet()
        self._hushed.on = True
        try:
            yield
        finally:
            self._hushed.on = before

    def is_quiet(self) -> bool:
        """Check if this thread is within :meth:`quiet`."""
        return getattr(self._hushed, "on", False)

    def is_broken(self) -> bool:
        """Check if the capture of the origin stream was invalidated."""
        if not self.capture:
            return False
        return stream_status(self.origin) == runtime.cudaStreamCaptureStatus(2)

    def spot(self, depth: int) -> Spot | None:
        """Return the user line, or the step's line for autograd's threads."""
        return spot_of(sys._getframe(depth)) or spot_of_thread(self.owner)

    def operator(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run and record an operator."""
        op = func._schema.name
        if self.is_quiet() or op.startswith("profiler::"):
            return func(*args, **kwargs)
        spot = self.spot(3)
        violation = by_operator(op, args, kwargs, spot, self.registered)
        key = (op, spot)
        leaves = tree_leaves((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        inputs = tuple(self._use(tensor, op, spot) for tensor in tensors)
        event = Event(
            op=op,
            spot=spot,
            stream=self.stream_name(),
            captured=self.is_captured(),
            thread=self.thread_name(),
            inputs=inputs,
            scalars=tuple(leaf for leaf in leaves if isinstance(leaf, int | float | str)),
            violation=violation,
        )
        self._find_broken(event)
        if key in self.answered:
            result = self._answer(func, args, kwargs, key, event)
            if result is not _NO_ANSWER:
                self._enter(event, tensors, result)
                return result
        return self._run(func, args, kwargs, event, tensors)

    def _run(
        self,
        func: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        event: Event,
        tensors: list[torch.Tensor],
    ) -> Any:
        try:
            with waits_refused(self._refuses_waits(event)) as refused:
                result = func(*args, **kwargs)
            if refused:
                event = with_violation(event, Violation(RuleId.SYNC_SHAPE))
                result = func(*args, **kwargs)
        except RuntimeError as error:
            self._enter(self.failing(event, error), tensors, None)
            raise
        self._enter(event, tensors, result)
        if event.violation is not None and not self.capture:
            self.recorded[event.op, event.spot].append(_kept(args, result, event.op))
        return result

    def _refuses_waits(self, event: Event) -> bool:
        """Check if torch should refuse GPU waits; off while other threads run."""
        return not self.capture and event.violation is None and threading.active_count() == 1

    def failing(self, event: Event, error: BaseException) -> Event:
        """Return ``event`` with the rule that its error, raised during a capture, indicates."""
        message = first_line(error)
        if not self.capture or self.broken is not None:
            return event
        rule = event.violation.rule if event.violation else by_message(message)
        if event.thread is not None:
            rule = RuleId.OTHER_THREAD
        elif rule is None:
            rule = RuleId.SYNC_SHAPE if event.captured else RuleId.ESCAPED_WORK
        evidence = event.violation.evidence if event.violation else ()
        self.broken = with_violation(event, Violation(rule, evidence, message))
        return self.broken

    def _enter(self, event: Event, inputs: list[torch.Tensor], result: Any) -> None:
        results = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        input_storages = {_storage(tensor) for tensor in inputs}
        self._made.update({_storage(tensor) for tensor in results} - input_storages)
        on_gpu = any(tensor.is_cuda for tensor in (*inputs, *results))
        event = with_violation(
            event,
            event.violation,
            on_gpu=on_gpu,
            makes_cpu=any(not tensor.is_cuda for tensor in results),
        )
        self.enter(event)

    def enter(self, event: Event) -> None:
        """Record an event and check that the capture is still valid."""
        if event.on_gpu and event.thread is None:
            stream = torch.cuda.current_stream().cuda_stream
            self.clock.works(stream, event.spot, event.op)
        self._find_broken(event)
        if self.broken is None and event.thread is None:
            self.last_good = event.spot
        self.log.events.append(event)

    def _find_broken(self, event: Event) -> None:
        """Check if a non-operator broke the capture since the last event."""
        if self.broken is None and self.is_broken():
            since = self.last_good.place().text if self.last_good else "the start of the step"
            evidence = (Evidence("last line with a valid capture", since),)
            self.broken = replace(
                event, op="", violation=Violation(RuleId.FORBIDDEN_CALL, evidence)
            )

    def made(self, value: object) -> None:
        """Register tensors allocated within the step without visible operators."""
        leaves = tree_leaves(value)
        self._made.update(_storage(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor))

    def _answer(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], key: Key, event: Event
    ) -> Any:
        """Return the recorded eager result, or run the operator where allowed."""
        rule = event.violation.rule if event.violation else None
        if rule is RuleId.GENERATOR:
            without_generator = [None if isinstance(arg, torch.Generator) else arg for arg in args]
            return func(
                *without_generator,
                **(kwargs | {"generator": None} if "generator" in kwargs else kwargs),
            )
        if event.thread is not None:
            with relaxed():
                return func(*args, **kwargs)
        recorded = self.next_answer(key)
        if recorded is not None:
            return args[0].copy_(recorded) if key[0] == "aten::copy_" else recorded
        if not event.captured:
            with torch.cuda.stream(torch.cuda.ExternalStream(self.origin)):
                return func(*args, **kwargs)
        return _NO_ANSWER

    def next_answer(self, key: Key) -> Any:
        """Return the next recorded eager result of this call and line, or None."""
        index = self._answered[key]
        self._answered[key] += 1
        answers = self.answers.get(key, [])
        return answers[index] if index < len(answers) else None

    def stream_name(self) -> str:
        """Describe the current stream and its capture state."""
        stream = torch.cuda.current_stream()
        if stream == torch.cuda.default_stream():
            return "default"
        captured = self.capture and self.is_captured()
        return f"{stream.cuda_stream:#x}" + (" (captured)" if captured else "")

    def is_captured(self) -> bool:
        """Check if the current stream is (or would be) part of the capture."""
        handle = torch.cuda.current_stream().cuda_stream
        if not self.capture:
            return self.clock.is_member(handle)
        return stream_status(handle) != runtime.cudaStreamCaptureStatus(0)

    def thread_name(self) -> str | None:
        """Return the name of a thread other than the step's, or None if unnamed."""
        ident = threading.get_ident()
        if ident == self.owner:
            return None
        # current_thread() would create a thread object for each of autograd's threads.
        return next(
            (thread.name for thread in threading.enumerate() if thread.ident == ident), None
        )

    def _use(self, tensor: torch.Tensor, op: str, spot: Spot | None) -> TensorUse:
        inner = _storage(tensor) in self._made
        if not inner and tensor.is_cuda and tensor.layout == torch.strided:
            self.outside.setdefault(_storage(tensor), Outside(tensor.detach(), op, spot))
        pinned = not tensor.is_cuda and tensor.layout == torch.strided and tensor.is_pinned()
        return TensorUse(
            address=_address(tensor),
            shape=tuple(tensor.shape),
            dtype=str(tensor.dtype).removeprefix("torch."),
            device="cuda" if tensor.is_cuda else "pinned" if pinned else "cpu",
            inner=inner,
        )


class Operators(TorchDispatchMode):
    """Sends every operator of a thread, and of its backward passes, to a watch."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        keyword_arguments = kwargs or {}
        if torch.is_inference_mode_enabled():
            # Otherwise torch has already decomposed composite operators.
            with self:
                result = func.decompose(*args, **keyword_arguments)
            if result is not NotImplemented:
                return result
        return self._watch.operator(func, args, keyword_arguments)


@contextmanager
def relaxed() -> Iterator[None]:
    """Allow this thread to make calls that a capture elsewhere forbids."""
    mode = runtime.cudaStreamCaptureMode.cudaStreamCaptureModeRelaxed
    _, before = runtime.cudaThreadExchangeStreamCaptureMode(mode)
    try:
        yield
    finally:
        runtime.cudaThreadExchangeStreamCaptureMode(before)


def stream_status(handle: int) -> Any:
    """Return the capture status of a stream: 0 none, 1 active, 2 invalidated."""
    response = runtime.cudaStreamIsCapturing(handle)
    # CUDA returns an error for the legacy stream while another stream is captured.
    return response[1] if response[0] == 0 else runtime.cudaStreamCaptureStatus(0)


@contextmanager
def waits_refused(wanted: bool) -> Iterator[list[str]]:
    """Make torch refuse GPU waits within the block; the list receives the swallowed refusals."""
    refused: list[str] = []
    if not wanted:
        yield refused
        return
    torch._C._cuda_set_sync_debug_mode(_REFUSE)
    try:
        yield refused
    except RuntimeError as error:
        if _REFUSED not in str(error):
            raise
        refused.append(str(error))
    finally:
        torch._C._cuda_set_sync_debug_mode(0)


def announce_refusals() -> None:
    """Trigger and hide torch's one-time warning about the setting of :func:`waits_refused`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch._C._cuda_set_sync_debug_mode(_REFUSE)
        torch._C._cuda_set_sync_debug_mode(0)


def with_violation(event: Event, violation: Violation | None, **changes: Any) -> Event:
    """Return ``event`` with a different violation."""
    return replace(event, violation=violation, **changes)


def _kept(args: tuple[Any, ...], result: Any, op: str) -> Any:
    if op == "aten::copy_":
        return args[0].detach().clone()
    return result.detach().clone() if isinstance(result, torch.Tensor) else result


def _storage(tensor: torch.Tensor) -> int:
    if tensor.layout != torch.strided:
        return id(tensor)
    return int(tensor.untyped_storage()._cdata)


def _address(tensor: torch.Tensor) -> int | None:
    if tensor.layout != torch.strided:
        return None
    return int(tensor.data_ptr())
