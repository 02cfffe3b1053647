"""Ranges in the trace of a capture that lead each launch to its module and its source line.

Only the capture pass uses them: they cost time on the CPU, never on the GPU, and are taken away
when the capture ends.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
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

from graphviz_dash.model.marks import MODULE, SOURCE

_TORCH = str(Path(torch.__file__).parent)
_OURS = str(Path(__file__))


class _SourceMode(TorchFunctionMode):
    """Wraps every call into torch that Python makes in a range named by the caller's line."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        line = caller_line(sys._getframe(1))
        if line is None:
            return func(*args, **(kwargs or {}))
        with record_function(SOURCE + line):
            return func(*args, **(kwargs or {}))


class _ModuleRanges:
    """Opens a range when a module's forward begins and closes it when it ends."""

    def __init__(self) -> None:
        self._open: list[record_function] = []
        self._names: dict[int, str] = {}

    def enter(self, module: torch.nn.Module, _args: Any) -> None:
        if not self._open or id(module) not in self._names:
            # A root: its own path is empty, so it is called by its class.
            self._names.update(
                (id(part), path or type(part).__name__) for path, part in module.named_modules()
            )
        span = record_function(MODULE + self._names[id(module)])
        span.__enter__()
        self._open.append(span)

    def leave(self, _module: torch.nn.Module, _args: Any, _result: Any) -> None:
        self._open.pop().__exit__(None, None, None)


@contextmanager
def annotated() -> Iterator[None]:
    """Within it, forwards of modules and Python's calls into torch are ranges of the trace.

    The hooks are removed at the end, whatever happened.
    """
    ranges = _ModuleRanges()
    before = register_module_forward_pre_hook(ranges.enter)
    after = register_module_forward_hook(ranges.leave, always_call=True)
    try:
        with _SourceMode():
            yield
    finally:
        before.remove()
        after.remove()


def caller_line(frame: FrameType | None) -> str | None:
    """``file:line`` of the innermost frame outside torch, this module and contextlib; or None."""
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((_TORCH, _OURS, "<frozen")) and not file.endswith("contextlib.py"):
            return f"{short_path(file)}:{frame.f_lineno}"
        frame = frame.f_back
    return None


@lru_cache(maxsize=4096)
def short_path(file: str) -> str:
    """``file`` relative to the working folder or to the longest entry of sys.path that holds it.

    So a bundle does not carry the folders of the machine it was made on.
    """
    path = Path(file)
    roots = [Path.cwd(), *(Path(entry) for entry in sys.path if entry)]
    inside = [root for root in roots if path.is_relative_to(root)]
    if not inside:
        return path.name
    return path.relative_to(max(inside, key=lambda root: len(root.parts))).as_posix()
