"""A base of dispatch modes that does not import torch.compile."""

from __future__ import annotations

import sys
from abc import abstractmethod
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class OperatorMode(TorchDispatchMode):
    """Receives every operator of a thread, and of its backward passes.

    torch's wrapper of ``__torch_dispatch__`` imports torch.compile, which lasts seconds, at the
    first operator. This mode uses the wrapper only in a program that imported torch.compile.
    """

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        return self.dispatch(func, args, kwargs or {})

    @abstractmethod
    def dispatch(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator and return its result."""


_dispatch_outside_compiler = OperatorMode.__torch_dispatch__


def _dispatch(
    mode: OperatorMode,
    func: Any,
    types: Any,
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
) -> Any:
    if "torch._dynamo" in sys.modules:
        return _dispatch_outside_compiler(mode, func, types, args, kwargs)
    return mode.dispatch(func, args, kwargs or {})


setattr(OperatorMode, "__torch_dispatch__", _dispatch)  # noqa: B010  (mypy: a method)
