"""Watches a step while it runs: every torch operator with its line, stream and memory, in the
thread of the step, in autograd's and in threads that are started meanwhile."""

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
"""An operator or call, and the line that made it."""

_NO_ANSWER = object()
_REFUSED = "called a synchronizing CUDA operation"
_REFUSE = 2


@dataclass
class Outside:
    """Memory that a step uses and did not make: a tensor over it, and its first use."""

    tensor: torch.Tensor
    op: str
    spot: Spot | None

    @property
    def name(self) -> str:
        """For a reader, where the program has no name for it."""
        return f"read by {self.op}" + (f" at {self.spot.place().text}" if self.spot else "")


@dataclass
class Watch:
    """One step that is watched, eager or in a capture."""

    origin: int
    """The handle of the stream that the step runs on."""
    capture: bool
    """Whether that stream is being captured."""
    answered: frozenset[Key] = frozenset()
    """Calls that broke an earlier attempt, which are answered so that the capture goes on."""
    answers: dict[Key, list[Any]] = field(default_factory=dict)
    """What those calls gave in an eager step, in the order of the calls."""
    registered: Sequence[torch.Generator] = ()
    """The generators that the graph was told of."""
    log: StepLog = field(default_factory=StepLog)
    """The operators and calls of the step, in their order."""
    broken: Event | None = None
    """The first call after which the capture is broken; None while it is whole."""
    outside: dict[int, Outside] = field(default_factory=dict)
    """Memory from outside the step that it used, by address."""

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
        """Within it nothing is taken down: one call of torch's own inside another."""
        before = self.is_quiet()
        self._hushed.on = True
        try:
            yield
        finally:
            self._hushed.on = before

    def is_quiet(self) -> bool:
        """Whether this thread is within :meth:`quiet`."""
        return getattr(self._hushed, "on", False)

    def is_broken(self) -> bool:
        """Whether the capture of the origin stream has been invalidated."""
        if not self.capture:
            return False
        return stream_status(self.origin) == runtime.cudaStreamCaptureStatus(2)

    def spot(self, depth: int) -> Spot | None:
        """The user's line; for autograd's threads, which run none, the step's own line."""
        return spot_of(sys._getframe(depth)) or spot_of_thread(self.owner)

    def operator(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs an operator and takes it down."""
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
        """Whether torch is to refuse what waits for the GPU, so that it shows itself.

        That setting is the process's: not while other threads could be refused something.
        """
        return not self.capture and event.violation is None and threading.active_count() == 1

    def failing(self, event: Event, error: BaseException) -> Event:
        """``event`` with the rule that its error, raised during a capture, says it broke."""
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
        given = {_storage(tensor) for tensor in inputs}
        self._made.update({_storage(tensor) for tensor in results} - given)
        on_gpu = any(tensor.is_cuda for tensor in (*inputs, *results))
        event = with_violation(
            event,
            event.violation,
            on_gpu=on_gpu,
            makes_cpu=any(not tensor.is_cuda for tensor in results),
        )
        self.enter(event)

    def enter(self, event: Event) -> None:
        """Takes an event down, and looks whether the capture survived it."""
        if event.on_gpu and event.thread is None:
            stream = torch.cuda.current_stream().cuda_stream
            self.clock.works(stream, event.spot, event.op)
        self._find_broken(event)
        if self.broken is None and event.thread is None:
            self.last_good = event.spot
        self.log.events.append(event)

    def _find_broken(self, event: Event) -> None:
        """Looks whether something that is no operator broke the capture since the one before."""
        if self.broken is None and self.is_broken():
            since = self.last_good.place().text if self.last_good else "the begin of the step"
            evidence = (Evidence("last line at which it was valid", since),)
            self.broken = replace(
                event, op="", violation=Violation(RuleId.FORBIDDEN_CALL, evidence)
            )

    def made(self, value: object) -> None:
        """Notes tensors that were made within the step below torch's operators."""
        leaves = tree_leaves(value)
        self._made.update(_storage(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor))

    def _answer(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], key: Key, event: Event
    ) -> Any:
        """What the call gave in an eager step, or the operator where it is allowed."""
        rule = event.violation.rule if event.violation else None
        if rule is RuleId.GENERATOR:
            drop = [None if isinstance(arg, torch.Generator) else arg for arg in args]
            return func(
                *drop, **(kwargs | {"generator": None} if "generator" in kwargs else kwargs)
            )
        if event.thread is not None:
            with relaxed():
                return func(*args, **kwargs)
        kept = self.next_answer(key)
        if kept is not None:
            return args[0].copy_(kept) if key[0] == "aten::copy_" else kept
        if not event.captured:
            with torch.cuda.stream(torch.cuda.ExternalStream(self.origin)):
                return func(*args, **kwargs)
        return _NO_ANSWER

    def next_answer(self, key: Key) -> Any:
        """What the next call of this kind and line gave in an eager step; None: nothing."""
        index = self._answered[key]
        self._answered[key] += 1
        answers = self.answers.get(key, [])
        return answers[index] if index < len(answers) else None

    def stream_name(self) -> str:
        """The current stream and whether it is captured."""
        stream = torch.cuda.current_stream()
        if stream == torch.cuda.default_stream():
            return "default"
        captured = self.capture and self.is_captured()
        return f"{stream.cuda_stream:#x}" + (" (captured)" if captured else "")

    def is_captured(self) -> bool:
        """Whether the current stream is part of the capture (or would be)."""
        handle = torch.cuda.current_stream().cuda_stream
        if not self.capture:
            return self.clock.is_member(handle)
        return stream_status(handle) != runtime.cudaStreamCaptureStatus(0)

    def thread_name(self) -> str | None:
        """The name of a Python thread other than the step's; autograd's have no Python name."""
        ident = threading.get_ident()
        if ident == self.owner:
            return None
        # Not current_thread(): it would make up a thread object for each of autograd's threads.
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
    """Hands every operator of a thread, and of the backward passes it begins, to a watch."""

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
        given = kwargs or {}
        if torch.is_inference_mode_enabled():
            # Elsewhere torch has taken composite operators apart before they come here.
            with self:
                result = func.decompose(*args, **given)
            if result is not NotImplemented:
                return result
        return self._watch.operator(func, args, given)


@contextmanager
def relaxed() -> Iterator[None]:
    """Within it this thread may make calls that a capture elsewhere forbids."""
    mode = runtime.cudaStreamCaptureMode.cudaStreamCaptureModeRelaxed
    _, before = runtime.cudaThreadExchangeStreamCaptureMode(mode)
    try:
        yield
    finally:
        runtime.cudaThreadExchangeStreamCaptureMode(before)


def stream_status(handle: int) -> Any:
    """The capture status of a stream: 0 none, 1 active, 2 invalidated."""
    answer = runtime.cudaStreamIsCapturing(handle)
    # Asked of the legacy stream while another is captured, CUDA answers with an error.
    return answer[1] if answer[0] == 0 else runtime.cudaStreamCaptureStatus(0)


@contextmanager
def waits_refused(wanted: bool) -> Iterator[list[str]]:
    """Within it torch refuses to wait for the GPU; the list tells whether it did, and swallows
    that error."""
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
    """Lets torch give its one warning about the setting that :func:`waits_refused` uses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch._C._cuda_set_sync_debug_mode(_REFUSE)
        torch._C._cuda_set_sync_debug_mode(0)


def with_violation(event: Event, violation: Violation | None, **changes: Any) -> Event:
    """``event`` with another violation."""
    return replace(event, violation=violation, **changes)


def _kept(args: tuple[Any, ...], result: Any, op: str) -> Any:
    """A result that later work cannot change."""
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
