"""Follow engines that the program imports."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Final, TypeAlias

from collectors.after_import import AfterImport
from collectors.guard import Guard
from collectors.program.loop.engines import sglang, transformers, vllm
from collectors.program.loop.engines.steps import EngineReports

_Follow: TypeAlias = Callable[[ModuleType, EngineReports], tuple[Callable[[], None], ...]]

_ENGINES: Final[Mapping[str, _Follow]] = transformers.RUNNERS | vllm.RUNNERS | sglang.RUNNERS


class EngineWatch:
    """Follows engines that the program imports, until it is stopped."""

    def __init__(self, reports: EngineReports, guard: Guard) -> None:
        self._reports = reports
        self._guard = guard
        self._restore: list[Callable[[], None]] = []
        self._finder: AfterImport | None = None

    def start(self) -> None:
        """Follow engines that are imported now or later."""
        followers = {}
        for name, follow in _ENGINES.items():
            if (module := sys.modules.get(name)) is not None:
                self._watch_module(follow, module)
            else:
                followers[name] = follow
        self._finder = AfterImport(
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
            self._restore += follow(module, self._reports)
