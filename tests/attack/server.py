"""A dashboard to attack: started as a user starts it, with folders that nobody else has."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from tests.attack.visitor import request
from tests.processes import bind, find_free_port, restore_signals, stop

ROOT: Final = Path(__file__).parents[2]
_START_S: Final = 120.0


@dataclass(frozen=True)
class Dashboard:
    address: str
    """Address without the token."""
    link: str
    """The address as it was printed."""
    command: subprocess.Popen[str]
    folder: Path
    """The folder that it was started in, which holds the experiments."""
    temporary: Path
    """Its folder for temporary files."""

    @property
    def server(self) -> psutil.Process:
        """The server itself, a child of the command."""
        process = psutil.Process(self.command.pid)
        return max(process.children(), key=lambda child: child.memory_info().rss, default=process)

    def answers(self, seconds: float = 5) -> bool:
        try:
            request(self.address, "/_stcore/health", seconds=seconds)
        except OSError:
            return False
        return True

    @property
    def left_behind(self) -> list[str]:
        walked = os.walk(self.temporary)  # which does not mind what goes meanwhile
        paths = (Path(where, name) for where, folders, files in walked for name in folders + files)
        return sorted(path.relative_to(self.temporary).as_posix() for path in paths)


@contextmanager
def dashboard(
    experiments: Sequence[str] = (),
    options: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    planted: Mapping[str, str] | None = None,
) -> Iterator[Dashboard]:
    """Serve copies of the samples ``experiments``; ``planted`` are further files of the start
    folder, by path."""
    with tempfile.TemporaryDirectory(prefix="attack-") as scratch:
        folder, temporary = Path(scratch) / "experiments", Path(scratch) / "tmp"
        folder.mkdir()
        temporary.mkdir()
        for name in experiments:
            shutil.copytree(ROOT / "sample_traces" / name, folder / name)
        for path, text in (planted or {}).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
        port = find_free_port()
        restore_signals()
        # As the installed command, which does not look into the working folder either.
        serve = [sys.executable, "-P", "-m", "graphviz_dash.app.cli.main", "serve"]
        command = subprocess.Popen(
            bind([*serve, "--port", str(port), *options]),
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={
                **os.environ,
                "TMPDIR": str(temporary),
                "GRAPHVIZ_DASH_CACHE": str(Path(scratch) / "cache"),
                "PYTHONUNBUFFERED": "1",
                **(environment or {}),
            },
        )
        try:
            assert command.stdout is not None
            link = command.stdout.readline().strip()
            served = Dashboard(f"http://127.0.0.1:{port}", link, command, folder, temporary)
            until = time.monotonic() + _START_S
            while not served.answers():
                if command.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"The dashboard did not start: exit code {command.poll()}")
                time.sleep(0.05)
            yield served
        finally:
            stop(command, seconds=20)
