from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.builders import make_experiment
from tests.forked import get_fork_server

EXPORT = """
import io, os, pathlib, signal, sys

number, count, *arguments = sys.argv[1:]
real = pathlib.Path.open
written = 0

class Interrupted(io.BufferedWriter):
    def write(self, data):
        global written
        written += 1
        if written == int(count):
            os.kill(os.getpid(), int(number))
        return super().write(data)

def open_interrupted(self, mode="r", *more, **options):
    file = real(self, mode, *more, **options)
    return Interrupted(file.detach()) if mode == "xb" else file

pathlib.Path.open = open_interrupted
from graphviz_dash.app.cli.main import main
sys.exit(main(arguments))
"""


@pytest.mark.parametrize(
    ("number", "count", "name"),
    [
        (signal.SIGTERM, 1, "a.pftrace"),
        (signal.SIGTERM, 3, "a.pftrace"),
        (signal.SIGHUP, 2, "a.pftrace.gz"),
        (signal.SIGINT, 1, "a.json.gz"),
        (signal.SIGTERM, 2, "a.json"),
    ],
)
def test_an_interrupted_export_leaves_nothing(
    tmp_path: Path, number: int, count: int, name: str
) -> None:
    experiment = make_experiment(tmp_path / "toy")
    target = tmp_path / "out"
    target.mkdir()
    (target / name).write_text("before", encoding="utf-8")
    command = ["export", "perfetto", str(experiment), "-o", str(target / name)]
    server = get_fork_server("graphviz_dash.app.cli.main", "graphviz_dash.app.cli.export")
    result = server.run(EXPORT, str(int(number)), str(count), *command)
    assert result.returncode == 128 + number, result.stderr
    assert result.stderr.splitlines()[-1] == "Error: interrupted"
    assert [path.name for path in target.iterdir()] == [name]
    assert (target / name).read_text(encoding="utf-8") == "before"
