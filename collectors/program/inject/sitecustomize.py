"""Runs in every Python process of a program under our hooks, before the program's first line.

Python imports a module of this name when it starts. This one lies first on PYTHONPATH
(:mod:`collectors.program.launcher` puts it there), notes the process, asks for the hook to be
called when torch has been imported, and then leaves no trace: the folder is taken off sys.path, and
a sitecustomize of the user's, which this one hid, is imported after all. Standard library only, for
the process may be any Python.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType


class _AfterTorch:
    """A finder that finds nothing itself, but has torch's loader call the hook when it is done."""

    def __init__(self, hook: str, note: Path) -> None:
        self._hook = hook
        self._note = note
        self._asking = False

    def find_spec(
        self, name: str, path: object = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """torch's spec as the other finders give it, its loader followed by the hook."""
        # Programs also ask whether there is a torch without importing it.
        if name != "torch" or self._asking:
            return None
        self._asking = True
        try:
            spec = importlib.util.find_spec("torch")
        finally:
            self._asking = False
        if spec is None or spec.loader is None:
            return None
        loader = spec.loader
        load = loader.exec_module

        def load_and_hook(module: ModuleType) -> None:
            load(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                call_hook(self._hook, self._note)

        loader.exec_module = load_and_hook  # type: ignore[method-assign]  # of this instance only
        return spec


def call_hook(hook: str, note: Path) -> None:
    """Calls ``module:function`` without arguments; what it lacks is noted, never raised."""
    module, _, function = hook.partition(":")
    try:
        begin = getattr(importlib.import_module(module), function)
    except ImportError as error:
        write_note(note, torch=True, error=f"{error}")
        return
    write_note(note, torch=True, error=None)
    begin()


def write_note(note: Path, torch: bool, error: str | None) -> None:
    """What the parent reads about this process when the program has ended."""
    content = {
        "pid": os.getpid(),
        "python": sys.executable,
        "torch": torch,
        "error": error,
    }
    part = note.with_suffix(".part")
    part.write_text(json.dumps(content), encoding="utf-8")
    part.replace(note)


def _start() -> None:
    hook = os.environ.get("GRAPHVIZ_DASH_HOOK")
    scratch = os.environ.get("GRAPHVIZ_DASH_SCRATCH")
    if not hook or not scratch:
        return
    note = Path(scratch) / "processes" / f"{os.getpid()}.json"
    try:
        write_note(note, torch=False, error=None)
    except OSError:
        # The parent is gone and its folder with it: whoever outlives it runs unwatched.
        return
    sys.meta_path.insert(0, _AfterTorch(hook, note))


def _import_hidden() -> None:
    """The sitecustomize that Python would have found without this one, if there is any."""
    here = str(Path(__file__).parent)
    sys.path[:] = [entry for entry in sys.path if entry != here]
    ours = sys.modules.pop("sitecustomize", None)
    try:
        importlib.import_module("sitecustomize")
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
        if ours is not None:
            sys.modules["sitecustomize"] = ours


if __name__ == "sitecustomize":
    _start()
    _import_hidden()
