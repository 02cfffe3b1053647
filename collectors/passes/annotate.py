"""Add trace ranges that map each captured launch to its module and source line.

Only the capture pass uses them; they add CPU time.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch.autograd.profiler import record_function
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.overrides import TorchFunctionMode

from collectors.collection.paths import GENERATED, shorten_path
from graphviz_dash.model.marks import MODULE, SOURCE

_TORCH = str(Path(torch.__file__).parent)
_OURS = str(Path(__file__).parents[1])
_EXAMPLES = tuple(str(Path(__file__).parents[1] / name) for name in ("workloads", "examples"))


class _SourceMode(TorchFunctionMode):
    """Wraps each Python call into torch in a range named after the caller's line."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        line = find_caller_line(sys._getframe(1))
        if line is None:
            return func(*args, **(kwargs or {}))
        with record_function(SOURCE + line):
            return func(*args, **(kwargs or {}))


class _ModuleRanges:
    """Opens a range for each module's forward.

    Paths start with the outermost module's class, numbered if repeated: ``Branch.layers.0``,
    ``Branch#2.layers.0``.
    """

    def __init__(self) -> None:
        self._open: list[record_function] = []
        self._names: dict[int, str] = {}
        self._roots: Counter[str] = Counter()

    def open_range(self, module: torch.nn.Module, _args: Any) -> None:
        if id(module) not in self._names:
            self._name_modules(module)
        span = record_function(MODULE + self._names[id(module)])
        span.__enter__()
        self._open.append(span)

    def _name_modules(self, root: torch.nn.Module) -> None:
        name = type(root).__name__
        self._roots[name] += 1
        if self._roots[name] > 1:
            name = f"{name}#{self._roots[name]}"
        for path, part in root.named_modules():
            self._names.setdefault(id(part), f"{name}.{path}" if path else name)

    def close_range(self, _module: torch.nn.Module, _args: Any, _result: Any) -> None:
        self._open.pop().__exit__(None, None, None)


@contextmanager
def annotate_captures() -> Iterator[None]:
    """Record module forwards and Python's calls into torch as trace ranges."""
    ranges = _ModuleRanges()
    before = register_module_forward_pre_hook(ranges.open_range)
    after = register_module_forward_hook(ranges.close_range, always_call=True)
    try:
        with _SourceMode():
            yield
    finally:
        before.remove()
        after.remove()


def find_caller_line(frame: FrameType | None) -> str | None:
    """Return ``file:line`` of the innermost workload frame, or None."""
    return next(iter(find_caller_lines(frame, 1)), None)


def find_caller_lines(frame: FrameType | None, limit: int) -> tuple[str, ...]:
    """Return ``file:line`` of workload frames, innermost first."""
    # Not a tuple of a generator, which raises SystemError if another thread lists all objects
    # meanwhile.
    lines = [
        f"{shorten_path(caller.f_code.co_filename)}:{caller.f_lineno}"
        for caller in islice(iter_callers(frame), limit)
    ]
    return tuple(lines)


def iter_callers(frame: FrameType | None) -> Iterator[FrameType]:
    """Iterate over workload frames, innermost first."""
    while frame is not None:
        file = frame.f_code.co_filename
        is_project_file = file.startswith(_OURS) and not file.startswith(_EXAMPLES)
        is_generated = file.startswith((_TORCH, "<frozen", "<eval_with_key>")) or GENERATED.search(
            file
        )
        if not is_project_file and not is_generated and "contextlib" not in file:
            yield frame
        frame = frame.f_back
