"""Classify rule violations by operator or by error message."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final

import torch

from collectors.doctor.events import Violation
from collectors.doctor.places import SourceLocation, is_condition
from graphviz_dash.model.doctor import Evidence, RuleId

_READS: Final = ("aten::_local_scalar_dense", "aten::equal")
_COPIES: Final = ("aten::_to_copy", "aten::copy_")
_INDEXING: Final = ("aten::index", "aten::index_put_", "aten::_index_put_impl_", "aten::index_put")

_SIZED_BY_DATA: Final = frozenset(
    "aten::" + name
    for name in (
        *("nonzero", "masked_select", "_unique", "_unique2", "unique_dim", "unique_consecutive"),
        *("repeat_interleave", "bincount", "_linalg_check_errors"),
    )
)

_MESSAGES: Final = (
    ("cannot copy between cpu and cuda", RuleId.UNPINNED_COPY),
    ("generator not in capture mode", RuleId.GENERATOR),
    ("generatorimpl during cuda graph capture", RuleId.GENERATOR),
    ("set_current_seed", RuleId.GENERATOR),
    ("capturable is false", RuleId.OPTIMIZER_CAPTURABLE),
    ("non-default stream", RuleId.DEFAULT_STREAM),
    ("register the state during capturing", RuleId.TWO_CAPTURES),
    ("out of memory", RuleId.OUT_OF_MEMORY),
    ("unjoined work", RuleId.UNJOINED_STREAM),
    ("dependency created on uncaptured work", RuleId.ESCAPED_WORK),
    ("previous error during capture", RuleId.FORBIDDEN_CALL),
    ("merge of separate capture", RuleId.TWO_CAPTURES),
    ("create(handle)", RuleId.NO_WARMUP),
    ("not_initialized", RuleId.NO_WARMUP),
)


_ENGINE: Final = ("torch/autograd/graph.py", "torch/autograd/__init__.py")
"""Files that call autograd's engine."""


def classify_message(message: str) -> RuleId | None:
    """Return the rule that an error message indicates, or None."""
    lower = message.lower()
    return next((rule for words, rule in _MESSAGES if words in lower), None)


def classify_error(error: BaseException) -> RuleId | None:
    """Return the rule that an error outside operators indicates, or None."""
    message = read_first_line(error)
    if "legacy stream" in message.lower() and _is_raised_by_autograd(error.__traceback__):
        return RuleId.GRADIENT_STREAM
    return classify_message(message)


def _is_raised_by_autograd(trace: TracebackType | None) -> bool:
    """Check if autograd itself raised an error, not an operator or function that it called."""
    if trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_filename.endswith(_ENGINE)


def mentions_capture(message: str) -> bool:
    """Check if an error is caused by capturing."""
    lower = message.lower()
    return "captur" in lower or "non-default stream" in lower


def read_first_line(error: BaseException) -> str:
    """Return the first line of an error message."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def classify_operator(
    op: str,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    spot: SourceLocation | None,
    registered: Sequence[torch.Generator],
) -> Violation | None:
    """Return the rule that an operator's arguments break in any capture."""
    if op in _READS and any(_is_on_gpu(arg) for arg in args):
        rule = RuleId.CONTROL_FLOW if spot and is_condition(spot) else RuleId.SYNC_VALUE
        return Violation(rule, _describe_tensor("tensor read", args[0]))
    if op in _COPIES:
        return _check_copy(op, args, kwargs)
    if op in _INDEXING:
        return _check_indexing(op, args)
    if op in _SIZED_BY_DATA:
        return _check_data_dependent_size(args, kwargs)
    return _check_generator(args, kwargs, registered)


def _check_data_dependent_size(args: Sequence[Any], kwargs: dict[str, Any]) -> Violation | None:
    gpu_tensor = next((arg for arg in args if _is_on_gpu(arg)), None)
    # repeat_interleave needs no size query if the output size is passed.
    if gpu_tensor is None or kwargs.get("output_size") is not None:
        return None
    return Violation(RuleId.SYNC_SHAPE, _describe_tensor("tensor read", gpu_tensor))


def _check_generator(
    args: Sequence[Any], kwargs: dict[str, Any], registered: Sequence[torch.Generator]
) -> Violation | None:
    generator = next(
        (value for value in (*args, *kwargs.values()) if isinstance(value, torch.Generator)), None
    )
    if generator is not None and generator.device.type == "cuda":
        usable = (*torch.cuda.default_generators, *registered)
        if not any(generator is other for other in usable):
            return Violation(
                RuleId.GENERATOR, (Evidence("seed of the generator", generator.initial_seed()),)
            )
    return None


def _check_copy(op: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Violation | None:
    if op == "aten::copy_":
        target, source = args[0], args[1]
        asynchronous = bool(args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
        to_gpu, pinned_target = _is_on_gpu(target), not _is_on_gpu(target) and target.is_pinned()
    else:
        source = args[0]
        device = kwargs.get("device")
        to_gpu = source.is_cuda if device is None else torch.device(device).type == "cuda"
        asynchronous = bool(kwargs.get("non_blocking", False))
        # An asynchronous copy allocates a pinned target.
        pinned_target = asynchronous
    if to_gpu == _is_on_gpu(source):
        return None
    pinned = source.is_pinned() if to_gpu else pinned_target
    if pinned and asynchronous:
        return None
    rule = RuleId.UNPINNED_COPY if to_gpu and not pinned else RuleId.SYNC_COPY
    size = source.numel() * source.element_size()
    return Violation(
        rule,
        (
            Evidence("bytes copied", size, "B"),
            Evidence("direction", "CPU to GPU" if to_gpu else "GPU to CPU"),
            Evidence("CPU memory is pinned", "yes" if pinned else "no"),
            Evidence("non_blocking", "yes" if asynchronous else "no"),
        ),
    )


def _check_indexing(op: str, args: Sequence[Any]) -> Violation | None:
    if not _is_on_gpu(args[0]):
        return None
    indices = [index for index in args[1] if isinstance(index, torch.Tensor)]
    # Writing through a mask needs no size: it becomes a masked fill.
    if op == "aten::index" and any(index.dtype == torch.bool for index in indices):
        return Violation(RuleId.SYNC_SHAPE, _describe_tensor("indexed tensor", args[0]))
    on_cpu = [index for index in indices if not index.is_cuda]
    if on_cpu:
        size = sum(index.numel() * index.element_size() for index in on_cpu)
        return Violation(
            RuleId.UNPINNED_COPY, (Evidence("bytes of indices on the CPU", size, "B"),)
        )
    return None


def _is_on_gpu(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.is_cuda


def _describe_tensor(name: str, tensor: torch.Tensor) -> tuple[Evidence, ...]:
    kind = str(tensor.dtype).removeprefix("torch.")
    return (Evidence(name, f"{kind} {list(tensor.shape)}"),)
