"""Observe a step's operators with line, stream and memory, also in autograd's and new threads."""

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
from torch.utils._pytree import tree_leaves

from collectors.doctor.classify import (
    classify_message,
    classify_operator,
    mentions_capture,
    read_first_line,
)
from collectors.doctor.clock import StreamClock
from collectors.doctor.conditionals import TORCH_BODIES, has_caller
from collectors.doctor.events import Event, StepLog, TensorUse, Violation
from collectors.doctor.places import SourceLocation, find_thread_location, find_user_location
from collectors.operator_mode import OperatorMode
from graphviz_dash.model.doctor import Evidence, RuleId

Key: TypeAlias = tuple[str, SourceLocation | None]

_NO_ANSWER = object()
_REFUSAL_MESSAGE = "called a synchronizing CUDA operation"
_REFUSE_MODE = 2
_COLLECTIVES = ("c10d::", "_c10d_functional::")
"""Namespaces of operators that run a collective."""


@dataclass
class ExternalTensor:
    """Memory from outside the step: a tensor and its first use."""

    tensor: torch.Tensor
    op: str
    spot: SourceLocation | None

    @property
    def name(self) -> str:
        """Fallback name if the program has none."""
        return f"read by {self.op}" + (f" at {self.spot.to_code_place().text}" if self.spot else "")


@dataclass
class StepWatch:
    """Observation of one step, eager or captured."""

    origin: int
    """Handle of the step's stream."""
    capture: bool
    """The stream is being captured."""
    answered: frozenset[Key] = frozenset()
    """Earlier breaking calls that are answered to continue the capture."""
    answers: dict[Key, list[Any]] = field(default_factory=dict)
    """Results of those calls in an eager step, in call order."""
    registered_generators: Sequence[torch.Generator] = ()
    log: StepLog = field(default_factory=StepLog)
    breaking_event: Event | None = None
    """First call that broke the capture, or None while valid."""
    foreign_break: Event | None = None
    """Call of a thread that ran before the capture, after which the capture was broken."""
    external_tensors: dict[int, ExternalTensor] = field(default_factory=dict)
    """External memory used by the step, by address."""

    def __post_init__(self) -> None:
        self.owner = threading.get_ident()
        self.clock = StreamClock(self.origin)
        self.recorded: dict[Key, list[Any]] = defaultdict(list)
        self.last_good: SourceLocation | None = None
        self._allocated: set[int] = set()
        self._answered: dict[Key, int] = defaultdict(int)
        self._suppressed = threading.local()
        self._has_drawn = False

    @contextmanager
    def suppress(self) -> Iterator[None]:
        """Suppress recording within the block, for torch calls nested in another call."""
        before = self.is_suppressed()
        self._suppressed.on = True
        try:
            yield
        finally:
            self._suppressed.on = before

    def is_suppressed(self) -> bool:
        """Check if this thread is within :meth:`suppress`."""
        return getattr(self._suppressed, "on", False)

    def is_broken(self) -> bool:
        """Check if the capture of the origin stream was invalidated."""
        if not self.capture:
            return False
        return get_capture_status(self.origin) == runtime.cudaStreamCaptureStatus(2)

    @contextmanager
    def watch_foreign_call(self, op: str) -> Iterator[None]:
        """Watch a call within the block if its thread ran before the capture."""
        thread = self.get_thread_name()
        if thread is None or self.foreign_break is not None or self._is_broken_elsewhere():
            yield
            return
        message = None
        try:
            yield
        except RuntimeError as error:
            message = read_first_line(error)
            raise
        finally:
            if (message and mentions_capture(message)) or self._is_broken_elsewhere():
                self.foreign_break = Event(
                    op=op,
                    spot=find_thread_location(self.owner),
                    stream="default",
                    captured=False,
                    thread=thread,
                    violation=Violation(RuleId.OTHER_THREAD, (), message),
                )

    def _is_broken_elsewhere(self) -> bool:
        """Check from another thread if the capture was invalidated."""
        with relax_capture_mode():
            return self.is_broken()

    def find_location(self, depth: int) -> SourceLocation | None:
        """Return the user line, or the step's line for autograd's threads."""
        return find_user_location(sys._getframe(depth)) or find_thread_location(self.owner)

    def run_operator(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run and record an operator."""
        op = func._schema.name
        if self.is_suppressed() or op.startswith("profiler::"):
            return func(*args, **kwargs)
        spot = self.find_location(3)
        violation = classify_operator(op, args, kwargs, spot, self.registered_generators)
        key = (op, spot)
        leaves = tree_leaves((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        inputs = tuple(self._record_use(tensor, op, spot) for tensor in tensors)
        event = Event(
            op=op,
            spot=spot,
            stream=self.describe_stream(),
            captured=self.is_captured(),
            thread=self.get_thread_name(),
            inputs=inputs,
            scalars=tuple(leaf for leaf in leaves if isinstance(leaf, int | float | str)),
            violation=violation,
        )
        self._detect_break(event)
        is_random = torch.Tag.nondeterministic_seeded in func.tags
        if key in self.answered:
            result = self._answer_call(func, args, kwargs, key, event)
            if result is not _NO_ANSWER:
                self._record_operator(event, tensors, result)
                return result
        result = self._run_and_record(func, args, kwargs, event, tensors, is_random=is_random)
        self._has_drawn |= is_random
        return result

    def _run_and_record(
        self,
        func: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        event: Event,
        tensors: list[torch.Tensor],
        *,
        is_random: bool,
    ) -> Any:
        try:
            with refuse_waits(self._can_refuse_waits(event)) as refused:
                result = func(*args, **kwargs)
            if refused:
                event = replace_violation(event, Violation(RuleId.SYNC_SHAPE))
                result = func(*args, **kwargs)
        except RuntimeError as error:
            is_first_draw = is_random and not self._has_drawn
            failure = self.classify_failure(event, error, is_first_draw=is_first_draw)
            self._record_operator(failure, tensors, None)
            raise
        self._record_operator(event, tensors, result)
        if event.violation is not None and not self.capture:
            self.recorded[event.op, event.spot].append(_copy_result(args, result, event.op))
        return result

    def _can_refuse_waits(self, event: Event) -> bool:
        """Check if torch should refuse GPU waits; off while other threads run."""
        return not self.capture and event.violation is None and threading.active_count() == 1

    def classify_failure(
        self, event: Event, error: BaseException, *, is_first_draw: bool = False
    ) -> Event:
        """Return ``event`` with the rule that its error indicates.

        ``is_first_draw``: It would draw the first random numbers of the capture.
        """
        message = read_first_line(error)
        if not self.capture or self.breaking_event is not None:
            return event
        rule = event.violation.rule if event.violation else classify_message(message)
        if event.op.startswith(_COLLECTIVES) and has_caller(sys._getframe(1), TORCH_BODIES):
            rule = RuleId.CONDITIONAL_COLLECTIVE
        if event.thread is not None:
            rule = RuleId.OTHER_THREAD
        elif rule is None and is_first_draw and mentions_capture(message):
            rule = RuleId.FIRST_RANDOM
        elif rule is None:
            rule = RuleId.SYNC_SHAPE if event.captured else RuleId.ESCAPED_WORK
        evidence = event.violation.evidence if event.violation else ()
        self.breaking_event = replace_violation(event, Violation(rule, evidence, message))
        return self.breaking_event

    def _record_operator(self, event: Event, inputs: list[torch.Tensor], result: Any) -> None:
        results = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        input_storages = {_get_storage_id(tensor) for tensor in inputs}
        self._allocated.update({_get_storage_id(tensor) for tensor in results} - input_storages)
        on_gpu = any(tensor.is_cuda for tensor in (*inputs, *results))
        event = replace_violation(
            event,
            event.violation,
            on_gpu=on_gpu,
            makes_cpu=any(not tensor.is_cuda for tensor in results),
        )
        self.record_event(event)

    def record_event(self, event: Event) -> None:
        """Record an event and check that the capture is still valid."""
        if event.on_gpu and event.thread is None:
            stream = torch.cuda.current_stream().cuda_stream
            self.clock.add_work(stream, event.spot, event.op)
        self._detect_break(event)
        if self.breaking_event is None and event.thread is None:
            self.last_good = event.spot
        self.log.events.append(event)

    def _detect_break(self, event: Event) -> None:
        if self.breaking_event is None and self.is_broken():
            since = (
                self.last_good.to_code_place().text if self.last_good else "the start of the step"
            )
            evidence = (Evidence("last line with a valid capture", since),)
            self.breaking_event = replace(
                event, op="", violation=Violation(RuleId.FORBIDDEN_CALL, evidence)
            )

    def add_allocated(self, value: object) -> None:
        """Register tensors allocated within the step without visible operators."""
        leaves = tree_leaves(value)
        self._allocated.update(
            _get_storage_id(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor)
        )

    def _answer_call(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], key: Key, event: Event
    ) -> Any:
        rule = event.violation.rule if event.violation else None
        if rule is RuleId.GENERATOR:
            without_generator = [None if isinstance(arg, torch.Generator) else arg for arg in args]
            return func(
                *without_generator,
                **(kwargs | {"generator": None} if "generator" in kwargs else kwargs),
            )
        if event.thread is not None:
            with relax_capture_mode():
                return func(*args, **kwargs)
        recorded = self.get_next_answer(key)
        if recorded is not None:
            return args[0].copy_(recorded) if key[0] == "aten::copy_" else recorded
        if not event.captured:
            with torch.cuda.stream(torch.cuda.ExternalStream(self.origin)):
                return func(*args, **kwargs)
        return _NO_ANSWER

    def get_next_answer(self, key: Key) -> Any:
        """Return the next recorded eager result, or None."""
        index = self._answered[key]
        self._answered[key] += 1
        values = self.answers.get(key, [])
        return values[index] if index < len(values) else None

    def describe_stream(self) -> str:
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
        return get_capture_status(handle) != runtime.cudaStreamCaptureStatus(0)

    def get_thread_name(self) -> str | None:
        """Return the name of a thread other than the step's, or None if unnamed."""
        ident = threading.get_ident()
        if ident == self.owner:
            return None
        # current_thread() would create a thread object for each of autograd's threads.
        return next(
            (thread.name for thread in threading.enumerate() if thread.ident == ident), None
        )

    def _record_use(self, tensor: torch.Tensor, op: str, spot: SourceLocation | None) -> TensorUse:
        inner = _get_storage_id(tensor) in self._allocated
        if not inner and tensor.is_cuda and tensor.layout == torch.strided:
            self.external_tensors.setdefault(
                _get_storage_id(tensor), ExternalTensor(tensor.detach(), op, spot)
            )
        pinned = not tensor.is_cuda and tensor.layout == torch.strided and tensor.is_pinned()
        return TensorUse(
            address=_get_address(tensor),
            shape=tuple(tensor.shape),
            dtype=str(tensor.dtype).removeprefix("torch."),
            device="cuda" if tensor.is_cuda else "pinned" if pinned else "cpu",
            inner=inner,
        )


class OperatorObserver(OperatorMode):
    """Sends every operator of a thread, and of its backward passes, to a watch."""

    def __init__(self, watch: StepWatch) -> None:
        super().__init__()
        self._watch = watch

    def dispatch(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator under the watch."""
        if torch.is_inference_mode_enabled():
            # Otherwise torch has already decomposed composite operators.
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        return self._watch.run_operator(func, args, kwargs)


@contextmanager
def relax_capture_mode() -> Iterator[None]:
    """Allow this thread to make calls that a capture elsewhere forbids."""
    mode = runtime.cudaStreamCaptureMode.cudaStreamCaptureModeRelaxed
    _, before = runtime.cudaThreadExchangeStreamCaptureMode(mode)
    try:
        yield
    finally:
        runtime.cudaThreadExchangeStreamCaptureMode(before)


def get_capture_status(handle: int) -> Any:
    """Return the capture status of a stream: 0 none, 1 active, 2 invalidated."""
    response = runtime.cudaStreamIsCapturing(handle)
    # CUDA returns an error for the legacy stream while another stream is captured.
    return response[1] if response[0] == 0 else runtime.cudaStreamCaptureStatus(0)


@contextmanager
def refuse_waits(enabled: bool) -> Iterator[list[str]]:
    """Make torch refuse GPU waits within the block; the list receives the swallowed refusals."""
    refused: list[str] = []
    if not enabled:
        yield refused
        return
    torch._C._cuda_set_sync_debug_mode(_REFUSE_MODE)
    try:
        yield refused
    except RuntimeError as error:
        if _REFUSAL_MESSAGE not in str(error):
            raise
        refused.append(str(error))
    finally:
        torch._C._cuda_set_sync_debug_mode(0)


def suppress_refusal_warning() -> None:
    """Trigger and hide torch's one-time warning about the setting of :func:`refuse_waits`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch._C._cuda_set_sync_debug_mode(_REFUSE_MODE)
        torch._C._cuda_set_sync_debug_mode(0)


def replace_violation(event: Event, violation: Violation | None, **changes: Any) -> Event:
    """Return ``event`` with a different violation."""
    return replace(event, violation=violation, **changes)


def _copy_result(args: tuple[Any, ...], result: Any, op: str) -> Any:
    if op == "aten::copy_":
        return args[0].detach().clone()
    return result.detach().clone() if isinstance(result, torch.Tensor) else result


def _get_storage_id(tensor: torch.Tensor) -> int:
    if tensor.layout != torch.strided:
        return id(tensor)
    return int(tensor.untyped_storage()._cdata)


def _get_address(tensor: torch.Tensor) -> int | None:
    if tensor.layout != torch.strided:
        return None
    return int(tensor.data_ptr())
