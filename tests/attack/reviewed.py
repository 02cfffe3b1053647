"""Commands that a review attacked, run as it ran them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree
from typing import Final

from tests.attack.attacks import must
from tests.attack.server import ROOT, Dashboard

_SAMPLES: Final = ROOT / "sample_traces"
_FAKE_TORCH: Final = ROOT / "tests" / "collectors" / "fake_torch"
_NOBODY: Final = 65534
CAPTURE: Final = """
from torch.cuda import CUDAGraph, graph
captured = CUDAGraph()
with graph(captured):
    pass
for _ in range(30):
    captured.replay()
"""
_PLANTED: Final = "open(__file__ + '.ran', 'w').close()\n"


@contextmanager
def make_folder(*samples: str, **files: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="attack-") as scratch:
        folder = Path(scratch).resolve()
        for name in samples:
            copytree(_SAMPLES / name, folder / name)
        for name, content in files.items():
            (folder / f"{name}.py").write_text(content, encoding="utf-8")
        yield folder


def start(
    folder: Path,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    prefix: Sequence[str] = (),
    **options: object,
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        (*prefix, sys.executable, "-P", "-m", "graphviz_dash.app.cli.main", *arguments),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,  # type: ignore[call-overload]
    )


def run_command(folder: Path, *arguments: str, **options: object) -> tuple[int, str]:
    process = start(folder, *arguments, **options)  # type: ignore[arg-type]
    try:
        output, errors = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        must(False, f"{arguments} does not end")
    must("Traceback" not in errors, f"{arguments}: {errors[-200:]}")
    return process.returncode, output + errors


def collect(
    folder: Path,
    program: str,
    *,
    output: str = "out",
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[str]:
    (folder / "train.py").write_text(program, encoding="utf-8")
    paths = {"PYTHONPATH": f"{_FAKE_TORCH}{os.pathsep}{ROOT}", **(environment or {})}
    options = ("-o", output, "--name", "taken", "--steps", "0")
    command = ("collect", *options, "--", sys.executable, "train.py")
    return start(folder, *command, environment=paths, start_new_session=True)


def run_planted_modules(_: Dashboard) -> str:
    """Defect 1: ``multiprocessing.py`` and a ``collectors`` package in the working folder."""
    with make_folder("decode", multiprocessing=_PLANTED, concurrent=_PLANTED) as folder:
        (folder / "collectors").mkdir()
        (folder / "collectors" / "__init__.py").write_text(_PLANTED, encoding="utf-8")
        copytree(folder / "decode" / "graph" / "traces", folder / "traces")
        commands: Sequence[tuple[str, ...]] = (
            ("import", "traces", "-o", "imported"),
            ("fleet", "."),
            ("compare", "traces"),
            ("collect", "-o", "out", "--", sys.executable, "-c", "pass"),
        )
        for command in commands:
            run_command(folder, *command)
        planted = [path.name for path in folder.rglob("*.ran")]
        must(not planted, f"{planted} ran")
    return f"held: {len(commands)} commands ran no planted module"


def end_recorded_programs(_: Dashboard) -> str:
    """Defect 5: hang-up of a ``nohup`` command, SIGINT to ``collect`` alone."""
    with make_folder() as folder:
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
        try:
            wait = "import time\nopen('ready', 'w').close()\ntime.sleep(3)\nraise SystemExit(5)\n"
            process = collect(folder, CAPTURE + wait)
        finally:
            signal.signal(signal.SIGHUP, before)
        wait_for(folder / "ready")
        os.killpg(process.pid, signal.SIGHUP)
        code = process.wait(60)
        must(code == 5, f"a hang-up ended it with {code}")
        (folder / "ready").unlink()
        sleep = "import time\nopen('ready', 'w').close()\ntime.sleep(100)\n"
        process = collect(folder, CAPTURE + sleep, output="other")
        wait_for(folder / "ready")
        process.send_signal(signal.SIGINT)
        start_s = time.monotonic()
        code = process.wait(60)
        must(code in (-signal.SIGINT, 130), f"an interrupt ended it with {code}")
    return (
        f"held: exit code 5 after a hang-up; ended {time.monotonic() - start_s:.1f} s after SIGINT"
    )


def wait_for(file: Path) -> None:
    """Wait for a file that a recorded program writes."""
    wait_until(file.exists, "the recorded program does not start")


def wait_until(holds: Callable[[], bool], problem: str) -> None:
    end_s = time.monotonic() + 60
    while not holds():
        must(time.monotonic() < end_s, problem)
        time.sleep(0.02)


def lose_exit_codes(_: Dashboard) -> str:
    """Defect 6: exit codes if the bundle's name is taken meanwhile or nothing is recorded."""
    with make_folder() as folder:
        taken = "import pathlib\npathlib.Path('out/taken').mkdir()\nraise SystemExit(7)\n"
        code = collect(folder, CAPTURE + taken).wait(60)
        names = sorted(path.name for path in (folder / "out").iterdir() if path.is_dir())
        must(code == 7, f"7 became {code}")
        must(any((folder / "out" / name / "manifest.json").exists() for name in names), str(names))
        code = collect(folder, "raise SystemExit(3)\n", output="nothing").wait(60)
        must(code == 3, f"3 became {code}")
    return f"held: 7 and 3 stay; the recording is in {names[-1]}"


def follow_foreign_links(_: Dashboard) -> str:
    """Defect 8: another account's link to a run."""
    if os.geteuid() != 0:
        return "not tried: needs root, which may make a link of another account"
    with make_folder("decode") as folder, make_folder() as shared:
        (shared / "x").mkdir()
        for link, target in ((shared / "x" / "eager", "decode/eager"), (shared / "y", "decode")):
            link.symlink_to(folder / target)
            os.lchown(link, _NOBODY, _NOBODY)
        _, output = run_command(shared, "ls", ".")
        must("complete" not in output, "a link of another account was followed")
    return "held: a link to a run and one to an experiment are refused"


def run_small_defects(_: Dashboard) -> str:
    """Defect 16: odd addresses, closed output, pipes as options, an ended export."""
    with make_folder("decode") as folder:
        for address in ("file:///x", "reference://x", "dir://x", "jupyter://x"):
            code, output = run_command(folder, "import", address, "-o", "imported")
            must(code != 0 and len(output.strip().splitlines()) <= 3, f"{address}: {output}")
        manifest = folder / "decode" / "graph" / "manifest.json"
        os.mkfifo(folder / "pipe")
        for command in (
            ("ladder", "decode", "--traffic", "pipe"),
            ("ladder", "decode", "--traffic", "/dev/zero"),
            ("gate", "decode", "--baseline", "pipe"),
            ("gate", "decode", "--baseline", "/dev/zero"),
        ):
            code, output = run_command(folder, *command)
            must(code != 0, f"{command} succeeded")
        shell = f"exec {sys.executable} -P -m graphviz_dash.app.cli.main show decode >&-"
        done = subprocess.run(
            ["sh", "-c", shell],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        must("Traceback" not in done.stderr, done.stderr[-200:])
        process = start(folder, "export", "perfetto", "decode", "-o", "trace.pftrace")
        time.sleep(1)
        process.terminate()
        process.communicate(timeout=60)
        must(not list(folder.glob("*.part*")), "an ended export leaves a part")
        manifest.write_text("{", encoding="utf-8")
        code, output = run_command(folder, "ladder", "decode")
        must(code != 0 and "expected" in output, output)
    return "held: 4 addresses, 4 pipes and devices, closed output, an ended export, a bad run"
