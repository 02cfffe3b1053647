"""The recipe of the guide for containers, with the command as process 1 of a PID namespace.

A container adds images and networks to this, which do not concern the recorder.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from graphviz_dash.bundle.read import read_bundle
from tests.collectors.program.recorded import PATH, ROOT
from tests.collectors.program.test_launcher import wait_for

GUIDE = ROOT / "docs" / "how-to" / "record-a-server.md"
NAMESPACES = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc")
SERVER = """
import os, pathlib, signal, sys, time
import torch

graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    pass
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
for _ in range(50):
    graph.replay()
pathlib.Path("parent").write_text(str(os.getppid()))
while True:
    graph.replay()
    time.sleep(0.002)
"""


def can_unshare() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*NAMESPACES, "true"], capture_output=True, check=False).returncode == 0


def read_instruction(name: str) -> list[str]:
    (found,) = re.findall(rf"^{name} (\[.*\])$", GUIDE.read_text(), re.M)
    return json.loads(found)


@pytest.mark.skipif(not can_unshare(), reason="the system allows no PID namespaces")
def test_stopping_the_container_writes_the_bundle(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(textwrap.dedent(SERVER))
    words = [*read_instruction("ENTRYPOINT"), *read_instruction("CMD")]
    words[0] = str(Path(sys.executable).with_name(words[0]))
    words = [word.replace("/runs/", f"{tmp_path}/runs/") for word in words]
    environment = os.environ | PATH
    environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with subprocess.Popen([*NAMESPACES, *words], cwd=tmp_path, env=environment) as container:
        wait_for(tmp_path / "parent")
        children = Path(f"/proc/{container.pid}/task/{container.pid}/children").read_text()
        os.kill(int(children.split()[0]), signal.SIGTERM)
        assert container.wait(60) == 0
    assert (tmp_path / "parent").read_text() == "1"
    contents = read_bundle(tmp_path / "runs" / "server" / "recorded")
    assert contents.manifest.status == "complete"
    assert len(contents.graphs) == 1
