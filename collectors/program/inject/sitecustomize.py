"""Runs in every Python process of a program under our hooks, before the program's first line.

Python imports a module of this name when it starts. This one lies first on PYTHONPATH
(:mod:`collectors.program.launcher` puts it there), notes the process, asks for the hook to be
called when torch has been imported, and then leaves no trace: the folder is taken off sys.path, and
a sitecustomize of the user's, which this one hid, is imported after all. Standard library only, for
the process may be any Python.

Whatever goes wrong here is ours and not the program's: it goes into the note, or nowhere where even
that cannot be written.
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

# What only types need, typing itself too, takes longer to import than all the rest, and every
# process of the program would wait for it.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.abc import Loader


class _Note:
    """What the parent reads about this process when the program has ended, in the folder ``notes``.

    Its name has process and time: a program that executes itself again keeps its process, and a
    number is given again to another one.
    """

    def __init__(self, notes: Path) -> None:
        self._notes = notes
        self._name = ""
        self._pid = 0

    def write(self, torch: bool, error: str | None) -> None:
        """Writes it, or writes it anew; not at all where the folder is gone or the disk full."""
        if self._pid != os.getpid():
            # The first of this process: a fork is another one, and leaves its parent's alone.
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
    """Without what no JSON can hold, such as bytes of a path that are no text."""
    return text.encode("utf-8", "backslashreplace").decode()


class _AfterTorch:
    """A finder that finds nothing itself, but has torch's loader call the hook when it is done."""

    def __init__(self, hook: str, note: _Note) -> None:
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
        # A torch without a spec, a loader that cannot be followed, a finder that raises: the other
        # finders are asked once more, as if this one were not there.
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
            with _HIDDEN_FRAME:
                load(module)
            with suppress(AttributeError):
                del loader.exec_module
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            _call_hook(self._hook, self._note)

        loader.exec_module = load_and_hook  # type: ignore[method-assign]  # of this instance only


class _HiddenFrame:
    """As ``collectors.guard.HIDDEN_FRAME``, which must not be imported yet: the frame of ours that
    enters it is not in the traceback that the program prints."""

    def __enter__(self) -> None:
        """Nothing."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """The error goes on."""
        if error is not None and error.__traceback__ is not None:
            error.__traceback__ = error.__traceback__.tb_next


_HIDDEN_FRAME = _HiddenFrame()


class _Refusal:
    """Keeps an error from the program, as ``collectors.guard.Guard`` does, which must not be
    imported yet: whatever a library of that Python makes of being imported must not come out of
    the program's own ``import torch``. What ends a program is no Exception, and goes on."""

    def __init__(self) -> None:
        self.text: str | None = None
        """The error in words."""

    def __enter__(self) -> None:
        """Nothing."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        """Whether it was kept."""
        if not isinstance(error, Exception):
            return False
        named = "" if isinstance(error, ImportError) else f"{type(error).__name__}: "
        self.text = f"{named}{error}"
        return True


def _call_hook(hook: str, note: _Note) -> None:
    """Calls ``module:function`` without arguments; what goes wrong is noted, never raised."""
    module, _, function = hook.partition(":")
    error = _hidden(module)
    if error is None:
        refusal = _Refusal()
        with refusal:
            getattr(importlib.import_module(module), function)()
        error = refusal.text
    note.write(torch=True, error=error)


def _hidden(module: str) -> str | None:
    """Why ``module`` must not be imported: another package of its name comes first, which is the
    program's own and would be run too early. None where it is the one that is meant, or is not
    there at all."""
    package, *inner = module.split(".")
    with suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(package)
        if inner and spec is not None:
            folder = Path(spec.origin or "").parent
            if not folder.joinpath(*inner).with_suffix(".py").is_file():
                return f"another module {package} comes first on sys.path"
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
        ModuleNotFoundError: there is none. Python's site module expects that error, and the program
            finds no module of this name, as without us.
    """
    here = str(Path(__file__).parent)
    sys.path[:] = [entry for entry in sys.path if entry != here]
    sys.path_importer_cache.pop(here, None)
    sys.modules.pop("sitecustomize", None)
    importlib.import_module("sitecustomize")


if __name__ == "sitecustomize":
    _start()
    _import_hidden()
