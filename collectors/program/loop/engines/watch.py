"""Follow engines that the program imports."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from collectors.guard import HIDDEN_FRAME, Guard
from collectors.program.loop.engines import sglang, transformers, vllm
from collectors.program.loop.engines.steps import ReportStep

if TYPE_CHECKING:
    from importlib.abc import Loader

_Follow: TypeAlias = Callable[[ModuleType, ReportStep, Guard], Callable[[], None]]

_ENGINES: Final[Mapping[str, _Follow]] = transformers.RUNNERS | vllm.RUNNERS | sglang.RUNNERS
"""Modules whose classes run steps, and the functions that follow them."""


class EngineWatch:
    """Follows engines that the program imports, until it is stopped."""

    def __init__(self, report: ReportStep, guard: Guard) -> None:
        self._report = report
        self._guard = guard
        self._restore: list[Callable[[], None]] = []
        self._finder: _AfterImport | None = None

    def start(self) -> None:
        """Follow engines that are imported now or later."""
        followers = {}
        for name, follow in _ENGINES.items():
            if (module := sys.modules.get(name)) is not None:
                self._watch_module(follow, module)
            else:
                followers[name] = follow
        self._finder = _AfterImport(
            frozenset(followers), lambda m: self._watch_module(followers[m.__name__], m)
        )
        sys.meta_path.insert(0, self._finder)

    def stop(self) -> None:
        """Restore the engines."""
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        while self._restore:
            self._restore.pop()()

    def _watch_module(self, follow: _Follow, module: ModuleType) -> None:
        with self._guard:
            self._restore.append(follow(module, self._report, self._guard))


class _AfterImport:
    """Finder that finds nothing, but calls ``after`` with some modules after their import."""

    def __init__(self, names: frozenset[str], after: Callable[[ModuleType], None]) -> None:
        self._names = names
        self._after = after
        self._asking: set[str] = set()

    def find_spec(
        self, fullname: str, path: Any = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec from the other finders, with a loader that calls ``after``."""
        if fullname not in self._names or fullname in self._asking:
            return None
        self._asking.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        except (ImportError, ValueError):
            # The other finders search again, without this one, and report errors to the program.
            return None
        if spec is not None and spec.loader is not None:
            self._wrap_loader(spec.loader)
        return spec

    def _wrap_loader(self, loader: Loader) -> None:
        load = loader.exec_module

        def load_and_follow(module: ModuleType) -> None:
            with HIDDEN_FRAME:
                load(module)
            self._after(module)

        loader.exec_module = load_and_follow  # type: ignore[method-assign]  # of this instance only
