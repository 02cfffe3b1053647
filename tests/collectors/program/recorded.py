"""Programs recorded by ``collect -- python train.py``, with a torch that captures nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import IO
from unittest import mock

from collectors.collection import requirements
from graphviz_dash.app.cli.main import main
from graphviz_dash.bundle.read import BundleContents, read_bundle
from graphviz_dash.model.recording import Recording
from tests.forked import get_fork_server

ROOT = Path(__file__).parents[3]
FAKE = Path(__file__).parents[1] / "fake_torch"
PATH = {"PYTHONPATH": f"{FAKE}{os.pathsep}{ROOT}"}
COLLECT = "import sys; from graphviz_dash.app.cli.main import main; sys.exit(main(sys.argv[1:]))"

CAPTURE = """
import torch
from torch.cuda import CUDAGraph as G

def captured():
    g = G()
    with torch.cuda.graph(g):
        pass
    return g
"""


def run(folder: Path, program: str, *options: str) -> subprocess.CompletedProcess[str]:
    """The program as train.py, recorded into ``out`` by the command in this process."""
    (folder / "train.py").write_text(textwrap.dedent(program))
    arguments = ["collect", "-o", "out", *options, "--", sys.executable, "train.py"]
    with (
        chdir(folder),
        mock.patch.dict(os.environ, PATH),
        mock.patch.object(requirements, "is_installed"),  # the program's torch is not this one's
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
    ):
        with _written_to(out, 1), _written_to(err, 2), redirect_stdout(out), redirect_stderr(err):
            code = main(arguments)
        for stream in (out, err):
            stream.seek(0)
        return subprocess.CompletedProcess(arguments, code, out.read(), err.read())


@contextmanager
def _written_to(file: IO[str], descriptor: int) -> Iterator[None]:
    """Redirect writes to ``descriptor`` by this process and its children to ``file``."""
    before = os.dup(descriptor)
    os.dup2(file.fileno(), descriptor)
    try:
        yield
    finally:
        file.flush()
        os.dup2(before, descriptor)
        os.close(before)


def run_apart(folder: Path, program: str, *options: str) -> subprocess.CompletedProcess[str]:
    """As :func:`run`, by a command that the program's end may end too."""
    (folder / "train.py").write_text(textwrap.dedent(program))
    command = ["collect", "-o", "out", *options, "--", sys.executable, "train.py"]
    return run_forked(folder, COLLECT, *command)


def run_forked(folder: Path, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``code`` in a process that has imported the modules of the command."""
    server = get_fork_server("graphviz_dash.app.cli.main", "collectors.collection.cli")
    return server.run(code, *arguments, cwd=folder, env=os.environ | PATH)


def alone(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run the program without the recorder; ``captured()`` records parts."""
    (folder / "alone.py").write_text(CAPTURE + textwrap.dedent(program))
    return _ended(folder, sys.executable, "alone.py")


def _ended(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        env=os.environ | PATH,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def seen(folder: Path, name: str = "recorded") -> tuple[BundleContents, Recording]:
    contents = read_bundle(folder / "out" / name)
    assert contents.recording is not None
    return contents, contents.recording
