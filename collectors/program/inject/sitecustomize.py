"""Install the recorder's hook in each Python process of a program, before its first line.

Python imports a module of this name when it starts. :mod:`collectors.program.launcher` puts this
one first on PYTHONPATH. It notes the process, requests a call of the hook after the import of
torch, removes its folder from sys.path, and imports the sitecustomize that it hid. It uses the
standard library only, because the process may be any Python.

Errors go into the note, if it can be written.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import time
from contextlib import suppress
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

_BEGIN = time.perf_counter_ns()

# Imports for types only, including typing, take longer than all others and would delay every
# process of the program.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.abc import Loader


class _Note:
    """Note for the parent about this process, in the folder ``notes``.

    Its name contains process id and time: a program that executes itself again keeps its id, and
    the system reuses ids.
    """

    def __init__(self, notes: Path) -> None:
        self._notes = notes
        self._name = ""
        self._pid = 0

    def write(self, torch: bool, error: str | None) -> None:
        """Write or rewrite the note. Does nothing if the folder is gone or the disk is full."""
        if self._pid != os.getpid():
            # First note of this process: a fork is another process and keeps its parent's note.
            self._pid = os.getpid()
            self._name = f"{self._pid}-{time.time_ns()}"
        content = {
            "pid": self._pid,
            "python": _plain(sys.executable),
            "torch": torch,
            "error": None if error is None else _plain(error),
        }
        part = self._notes / f"{self._name}.part"
        with suppress(OSError):
            part.write_text(json.dumps(content), encoding="ascii")
            part.replace(part.with_suffix(".json"))


def _plain(text: str) -> str:
    """Escape characters that JSON cannot contain, such as non-text bytes of paths."""
    return text.encode("utf-8", "backslashreplace").decode()


class _AfterTorch:
    """Finder that finds nothing, but makes torch's loader call the hook."""

    def __init__(self, hook: str, note: _Note) -> None:
        self._hook = hook
        self._note = note
        self._asking = False

    def find_spec(
        self, name: str, path: object = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        # Programs also look for torch without importing it.
        if name != "torch" or self._asking:
            return None
        self._asking = True
        # On any failure the other finders search again, as if this one were absent.
        with suppress(Exception):
            spec = importlib.util.find_spec("torch")
            if spec is not None and spec.loader is not None:
                self._follow(spec.loader)
            self._asking = False
            return spec
        self._asking = False
        return None

    def _follow(self, loader: Loader) -> None:
        load = loader.exec_module

        def load_and_hook(module: ModuleType) -> None:
            begin = time.perf_counter_ns()
            with _HIDDEN_FRAME:
                load(module)
            # collectors.ledger.clock reads these times.
            sys._graphviz_dash_birth = (os.getpid(), _BEGIN, begin, time.perf_counter_ns())  # type: ignore[attr-defined]
            with suppress(AttributeError):
                del loader.exec_module
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            _call_hook(self._hook, self._note)

        loader.exec_module = load_and_hook  # type: ignore[method-assign]  # of this instance only


class _HiddenFrame:
    """Context that removes the entering frame from tracebacks.

    Copy of ``collectors.guard.HIDDEN_FRAME``, which must not be imported yet.
    """

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and error.__traceback__ is not None:
            error.__traceback__ = error.__traceback__.tb_next


_HIDDEN_FRAME = _HiddenFrame()


_PACKAGES = {"graphviz_dash": "units.py", "msgspec": "_core*"}
"""Packages that every hook imports, each with one of its files."""


class _Refusal:
    """Context that swallows an error, so that ``import torch`` of the program does not fail.

    Copy of ``collectors.guard.Guard``, which must not be imported yet. Exceptions that end the
    program continue.
    """

    def __init__(self) -> None:
        self.text: str | None = None

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception):
            return False
        named = "" if isinstance(error, ImportError) else f"{type(error).__name__}: "
        self.text = f"{named}{error}"
        return True


def _call_hook(hook: str, note: _Note) -> None:
    module, _, function = hook.partition(":")
    error = _hidden(module)
    if error is None:
        refusal = _Refusal()
        with refusal:
            getattr(importlib.import_module(module), function)()
        error = refusal.text
    note.write(torch=True, error=error)


def _hidden(module: str) -> str | None:
    """Explain why ``module`` must not be imported: another package of its name, or of a name that
    it imports, comes first on sys.path.

    That package belongs to the program and would run too early. None otherwise.
    """
    package, *inner = module.split(".")
    files = {package: f"{'/'.join(inner)}.py", **_PACKAGES} if inner else {}
    for name, file in files.items():
        with suppress(ImportError, ValueError):
            spec = importlib.util.find_spec(name)
            if spec is not None and not any(Path(spec.origin or "").parent.glob(file)):
                return f"another module {name} comes first on sys.path"
    return None


def _start() -> None:
    hook = os.environ.get("GRAPHVIZ_DASH_HOOK")
    scratch = os.environ.get("GRAPHVIZ_DASH_SCRATCH")
    if not hook or not scratch:
        return
    note = _Note(Path(scratch) / "processes")
    note.write(torch=False, error=None)
    sys.meta_path.insert(0, _AfterTorch(hook, note))


def _import_hidden() -> None:
    """Import the sitecustomize that Python would have found without this one.

    Raises:
        ModuleNotFoundError: There is none. Python's site module expects that error.
    """
    here = str(Path(__file__).parent)
    sys.path[:] = [entry for entry in sys.path if entry != here]
    sys.path_importer_cache.pop(here, None)
    sys.modules.pop("sitecustomize", None)
    importlib.import_module("sitecustomize")


if __name__ == "sitecustomize":
    _start()
    _import_hidden()
