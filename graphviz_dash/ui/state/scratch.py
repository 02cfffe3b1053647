"""The folder in which the server keeps what shall not outlive it: uploads, exported traces."""

from __future__ import annotations

import shutil
import tempfile
import threading
from pathlib import Path
from typing import Final

from graphviz_dash.bundle.staging import Staging, remove_leftovers
from graphviz_dash.server_settings import SCRATCH_NAME


class Scratch:
    """A folder in the system's temporary folder, readable by this user only; made when first asked
    for. Its lock goes with the process, so that one of a killed server is known as a leftover."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._staging: Staging | None = None

    @property
    def folder(self) -> Path:
        """The folder."""
        with self._lock:
            if self._staging is None:
                self._staging = Staging(Path(tempfile.gettempdir()), SCRATCH_NAME)
            return self._staging.path

    def subfolder(self, name: str) -> Path:
        """The folder called ``name`` in it, made if it is not there."""
        folder = self.folder / name
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def remove_subfolder(self, name: str) -> None:
        """Removes the folder called ``name`` in it, if it is there."""
        if self._staging is not None:
            shutil.rmtree(self._staging.path / name, ignore_errors=True)

    def remove(self) -> None:
        """Removes the folder with all that is in it; one that is asked for later is another."""
        if self._staging is not None:
            self._staging.__exit__(None, None, None)
            self._staging = None


def remove_scratch_of_killed() -> None:
    """Removes what servers of this user left behind that were killed."""
    remove_leftovers(Path(tempfile.gettempdir()), SCRATCH_NAME)


SCRATCH: Final = Scratch()
