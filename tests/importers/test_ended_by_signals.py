from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.builders import TraceBuilder
from tests.processes import restore_signals

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends orphans")

_SCRIPT = Path(sys.executable).with_name("graphviz-dash")
_SLOW = """
import sys, time
if sys.argv[:1] == ["-c"] or "--multiprocessing-fork" in sys.argv:
    from pathlib import Path
    import os
    class Slow:
        def find_spec(self, name, *_):
            if name == "graphviz_dash.ingest.kineto.events":
                Path(os.environ["MARKS"], str(os.getpid())).touch()
                time.sleep(600)
    sys.meta_path.insert(0, Slow())
"""


@pytest.mark.parametrize(
    ("command", "number"),
    [
        *(("import", n) for n in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL)),
        ("fleet", signal.SIGTERM),
        ("compare", signal.SIGTERM),
    ],
)
def test_nothing_stays(tmp_path: Path, command: str, number: signal.Signals) -> None:
    files, marks, temporary, modules = (
        tmp_path / name for name in ("files", "marks", "tmp", "modules")
    )
    for folder in (files, marks, temporary, modules):
        folder.mkdir()
    (modules / "sitecustomize.py").write_text(_SLOW, encoding="utf-8")
    for name in ("a.json", "b.json", "c.json"):
        builder = TraceBuilder()
        builder.kernel("gemm", 2_000, 3_000, correlation=1)
        builder.write(files / name)
    options = ["-o", tmp_path / "out"] if command == "import" else []
    environment = os.environ | {
        "TMPDIR": str(temporary),
        "MARKS": str(marks),
        "PYTHONPATH": str(modules),
    }
    restore_signals()
    started = subprocess.Popen(
        [_SCRIPT, command, files, *options, "--workers", "2"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    _wait_until(lambda: len(list(marks.iterdir())) == 2)
    processes = psutil.Process(started.pid).children(recursive=True)
    assert len(processes) >= 2
    started.send_signal(number)
    _, error = started.communicate(timeout=60)
    expected = -number if number is signal.SIGKILL else 128 + number
    assert started.returncode == expected, error
    _, alive = psutil.wait_procs(processes, timeout=30)
    assert alive == []
    if number is signal.SIGKILL:
        environment["PYTHONPATH"] = ""
        command_after = [_SCRIPT, "import", files, "-o", tmp_path / "out"]
        subprocess.run(command_after, env=environment, check=True, capture_output=True)
    left = [path.name for path in temporary.iterdir()]
    assert left == []


def _wait_until(holds: object) -> None:
    end = time.monotonic() + 240
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.05)
