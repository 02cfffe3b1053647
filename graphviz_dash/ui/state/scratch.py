"""Temporary folder of the server for uploads and exported traces."""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Final

from graphviz_dash.bundle.staging import Staging, remove_abandoned_folders
from graphviz_dash.server_settings import SCRATCH_NAME


class Scratch:
    """A private folder in the system's temporary folder, created on first use.

    Its lock ends with the process, which identifies leftovers of killed servers.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._staging: Staging | None = None

    @property
    def folder(self) -> Path:
        """Path of the folder."""
        with self._lock:
            if self._staging is None:
                self._staging = Staging(Path(tempfile.gettempdir()), SCRATCH_NAME)
            return self._staging.path

    def create_subfolder(self, name: str) -> Path:
        """Create the subfolder ``name`` if necessary and return it."""
        folder = self.folder / name
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def hide_paths(self, text: str) -> str:
        """Remove the folders of the server from paths of uploads, which a visitor does not know."""
        if self._staging is None:
            return text
        bases = {self._staging.path, self._staging.path.resolve()}
        pattern = "|".join(re.escape(str(base)) for base in bases)
        return re.sub(
            rf"(?:{pattern})(?![\w-])(?:/uploads)?(?:/[0-9a-f]{{32}})?(?:/\.reading-[^/\s]+)?"
            r"(?:/files|/experiment)?(/?)",
            lambda match: "" if match[1] else "the upload",
            text,
        )

    def remove_subfolder(self, name: str) -> None:
        """Delete the subfolder ``name`` if it exists."""
        if self._staging is not None:
            shutil.rmtree(self._staging.path / name, ignore_errors=True)

    def remove(self) -> None:
        """Delete the folder; later use creates another."""
        if self._staging is not None:
            self._staging.__exit__(None, None, None)
            self._staging = None


def remove_scratch_of_killed() -> None:
    """Delete folders of killed servers of this user."""
    remove_abandoned_folders(Path(tempfile.gettempdir()), SCRATCH_NAME)


SCRATCH: Final = Scratch()
