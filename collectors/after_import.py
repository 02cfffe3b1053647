"""Call a function after the import of a module."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from collectors.guard import HIDDEN_FRAME

if TYPE_CHECKING:
    from importlib.abc import Loader


class AfterImport:
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
