"""Attacks by malformed HTTP, compressed messages, folder trees and starved programs."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct
from websockets.exceptions import ConnectionClosed

from tests.attack.attacks import must
from tests.attack.files import witness
from tests.attack.server import ROOT, Dashboard, dashboard
from tests.attack.visitor import Visitor

_ESCAPES: Final = "\\" * 60_000
_RANGES: Final = ",".join(f"{start}-{start}" for start in range(0, 14_000, 2))
_HEADERS: Final[Mapping[str, str]] = {
    "one cookie of backslashes": f'Cookie: a="{_ESCAPES}"',
    "one cookie of octal escapes": 'Cookie: a="' + "\\123" * 15_000 + '"',
    "8,000 cookies": "Cookie: " + "; ".join(f"a{number}=1" for number in range(8_000)),
    "7,000 ranges": f"Range: bytes={_RANGES}",
    "15,000 overlapping ranges": "Range: bytes=" + ",".join(["0-"] * 15_000),
    "a range of dashes": "Range: bytes=" + "-" * 50_000,
    "9,000 entity tags": "If-None-Match: " + 'W/"a",' * 9_000,
    "9,000 encodings": "Accept-Encoding: " + "gzip," * 9_000,
    "6,000 media types": "Accept: text/html" + ",a/b;q=0.1" * 6_000,
    "NUL": "X: a\0b",
    "a folded line": "X: a\r\n b",
    "3 MB": "X: " + "a" * 3_000_000,
    "100,000 headers": "\r\n".join(f"X{number}: a" for number in range(100_000)),
    "two lengths": "Content-Length: 5\r\nContent-Length: 6",
    "a length below zero": "Content-Length: -1",
    "two hosts": "Host: evil.example",
    "an upgrade": "Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk",
}
_PATHS: Final = ("/", "/assets/style.css", "/favicon.png", "/api/dag/view?experiment=decode")
_MAX_S: Final = 5.0


def send_malformed_requests(served: Dashboard) -> str:
    """Headers that parsers need much time for, and requests that mean two things."""
    host = served.address.partition("//")[2]
    count = 0
    with witness(served) as seen:
        for name, header in _HEADERS.items():
            for path in _PATHS:
                head = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{header}\r\n"
                start_s = time.monotonic()
                answer = _exchange(served, head.encode("latin-1") + b"\r\n")
                duration_s = time.monotonic() - start_s
                must(duration_s < _MAX_S, f"{name}: an answer after {duration_s:.0f} s")
                must(b" 500 " not in answer[:20], f"{name}: {answer[:60]!r}")
                count += 1
        smuggled = (
            f"POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5\r\n"
            "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
            "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"
        )
        answer = _exchange(served, smuggled.encode(), seconds=3)
        must(b" 200 " not in answer, "a hidden request of another host was answered")
        endless = f"PUT / HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n1;"
        _exchange(served, endless.encode() + b"a" * 5_000_000, seconds=3)
        for start in ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET /\r\n\r\n", "\x16\x03\x01\x02\0"):
            must(b" 200 " not in _exchange(served, start.encode("latin-1"), seconds=3), start)
        ping = f"GET /_stcore/health HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
        answer = _exchange(served, ping * 5_000, seconds=10)
        must(answer.count(b"HTTP/1.1 200") > 1_000, "requests in one piece are not answered")
    must(served.answers(), "the server does not answer")
    return f"held: {count + 6} requests, others within {seen.longest_s:.1f} s"


def _exchange(served: Dashboard, data: bytes, seconds: float = 60) -> bytes:
    """Send ``data`` and return the answer up to the end of the connection."""
    host, _, port = served.address.partition("//")[2].rpartition(":")
    answer = bytearray()
    with socket.create_connection((host, int(port)), seconds) as connection:
        connection.settimeout(seconds)
        try:
            connection.sendall(data)
            while len(answer) < 1 << 22 and (part := connection.recv(1 << 16)):
                answer += part
        except OSError:
            pass  # refused or silent
    return bytes(answer)


def send_compressed_messages(_: Dashboard) -> str:
    """Messages of 400 MB of zeros, which are 400 kB when compressed."""
    with dashboard(["decode"]) as own, witness(own) as seen:
        for _number in range(3):
            # Refused as too long.
            with suppress(ConnectionClosed), Visitor(own.address).open() as visitor:
                visitor.send_raw(bytes(400_000_000))
                visitor.rerun()
        with Visitor(own.address).open() as other:
            must(not other.problems, f"another page shows {other.problems}")
    must(seen.most_bytes < 1 << 30, f"it took {seen.most_bytes / 1e9:.1f} GB")
    return f"held: others within {seen.longest_s:.1f} s, {seen.most_bytes / 1e9:.1f} GB"


def plant_folder_trees(_: Dashboard) -> str:
    """Folders that are deep, many, linked in circles, or in place of a file."""
    with dashboard(["decode"]) as own:
        folder = own.folder
        inner = folder
        for _ in range(400):
            inner /= "deep"
            inner.mkdir()
        for number in range(20_000):
            (folder / f"empty-{number}").mkdir()
        for number in range(50):
            (folder / f"circle-{number}").symlink_to(folder)
            (folder / "decode" / f"circle-{number}").symlink_to("..")
        odd = folder / "odd"
        for name in ("folder", "pipe", "socket", "null", "self", "empty", "huge"):
            (odd / name).mkdir(parents=True)
        (odd / "folder" / "manifest.json").mkdir()
        os.mkfifo(odd / "pipe" / "manifest.json")
        (odd / "null" / "manifest.json").symlink_to("/dev/zero")
        (odd / "self" / "manifest.json").symlink_to("manifest.json")
        (odd / "empty" / "manifest.json").touch()
        os.truncate(_touch(odd / "huge" / "manifest.json"), 1 << 40)
        with socket.socket(socket.AF_UNIX) as listener:
            os.chdir(odd / "socket")
            try:
                listener.bind("manifest.json")
            finally:
                os.chdir(ROOT)
        with witness(own) as seen, Visitor(own.address) as visitor:
            visitor.open()
            must("decode" in visitor.text, "an experiment is not listed")
            must(not visitor.problems, f"the Overview shows {visitor.problems}")
            for page in ("compare", "graph"):
                visitor.open(page, "experiment=decode")
                must(not visitor.problems, f"{page} shows {visitor.problems}")
        command = (sys.executable, "-P", "-m", "graphviz_dash.app.cli.main", "ls", ".")
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=60, check=False
        )
        must("Traceback" not in done.stderr, done.stderr[-300:])
        must("decode" in done.stdout, "ls does not list it")
    return f"held: 20,000 folders, 400 deep, 7 odd files; others within {seen.longest_s:.1f} s"


def _touch(path: Path) -> Path:
    path.touch()
    return path


class _Condition(Struct, frozen=True):
    environment: Mapping[str, str] = {}
    limits: Mapping[str, int] = {}
    closed: int | None = None
    """Descriptor that is closed."""
    prepare: Callable[[], object] | None = None
    is_bare: bool = False
    """Without any other variable."""


def _leave_folder() -> None:
    folder = Path("gone").absolute()
    folder.mkdir()
    os.chdir(folder)
    folder.rmdir()


_PROGRAM: Final = """
import os, sys
from torch.cuda import CUDAGraph, graph
captured = CUDAGraph()
with graph(captured):
    pass
for _ in range(30):
    captured.replay()
def attempt(act):
    try:
        return repr(act())
    except (AttributeError, OSError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
print(
    attempt(lambda: open("file", "w").write("a" * 100)),
    attempt(lambda: os.path.basename(os.getcwd())),
    attempt(lambda: sys.stdin.read()),
    sys.flags.optimize, sys.flags.dev_mode, os.environ.get("TMPDIR"), os.environ.get("HOME"),
    os.nice(0), oct(os.umask(0)), sys.getrecursionlimit(),
)
sys.exit(7)
"""
_CONDITIONS: Final[Mapping[str, _Condition]] = {
    "16 descriptors": _Condition(limits={"NOFILE": 16}),
    "files of 4 kB": _Condition(limits={"FSIZE": 4096}),
    "1 GB of memory": _Condition(limits={"AS": 1 << 30}),
    "a stack of 256 kB": _Condition(limits={"STACK": 1 << 18}),
    "30 s of CPU time, no core": _Condition(limits={"CPU": 30, "CORE": 0}),
    "a removed folder": _Condition(prepare=_leave_folder),
    "no temporary folder": _Condition({"TMPDIR": "/nonexistent"}),
    "a file as temporary folder": _Condition({"TMPDIR": "/etc/passwd"}),
    "no variables": _Condition(is_bare=True),
    "closed stdin": _Condition(closed=0),
    "closed stdout": _Condition(closed=1),
    "closed stderr": _Condition(closed=2),
    "optimised": _Condition({"PYTHONOPTIMIZE": "2", "PYTHONDONTWRITEBYTECODE": "1"}),
    "development mode": _Condition({"PYTHONDEVMODE": "1"}),
    "ASCII": _Condition({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}),
    "debugged allocator": _Condition({"PYTHONMALLOC": "debug", "PYTHONHASHSEED": "0"}),
    "umask 777": _Condition(prepare=lambda: os.umask(0o777)),
    "lowest priority": _Condition(prepare=lambda: os.nice(19)),
    "own session": _Condition(prepare=os.setsid),
    "fault handler": _Condition({"PYTHONFAULTHANDLER": "1"}),
    "short integers": _Condition({"PYTHONINTMAXSTRDIGITS": "640"}),
    "safe path": _Condition({"PYTHONSAFEPATH": "1"}),
    "unbuffered": _Condition({"PYTHONUNBUFFERED": "1"}),
    "traced memory": _Condition({"PYTHONTRACEMALLOC": "5"}),
    "warnings are errors": _Condition({"PYTHONWARNINGS": "error"}),
}


def starve_recorded_programs(_: Dashboard) -> str:
    """Programs under limits, odd variables and closed streams, with and without the recorder."""
    collect = (sys.executable, "-P", "-m", "graphviz_dash.app.cli.main", "collect")
    for name, condition in _CONDITIONS.items():
        alone = _run_starved(condition, ())
        recorded = _run_starved(condition, (*collect, "-o", "../out", "--steps", "0", "--"))
        must(recorded == alone, f"{name}: {recorded} instead of {alone}")
    return f"held: equal output and exit code under {len(_CONDITIONS)} conditions"


def _run_starved(condition: _Condition, recorder: tuple[str, ...]) -> tuple[int, str]:
    def prepare() -> None:
        for name, value in condition.limits.items():
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))
        if condition.prepare is not None:
            condition.prepare()
        if condition.closed is not None:
            os.close(condition.closed)

    with tempfile.TemporaryDirectory(prefix="attack-") as scratch:
        folder, program = Path(scratch) / "work", Path(scratch) / "train.py"
        folder.mkdir()
        program.write_text(_PROGRAM, encoding="utf-8")
        paths = os.pathsep.join((str(ROOT / "tests" / "collectors" / "fake_torch"), str(ROOT)))
        environment = {} if condition.is_bare else dict(os.environ)
        output = Path(scratch) / "output"
        if recorder:
            recorder = tuple(word.replace("../out", f"{scratch}/out") for word in recorder)
        with output.open("wb") as stdout:
            done = subprocess.run(
                (*recorder, sys.executable, str(program)),
                cwd=folder,
                env=environment | {"PYTHONPATH": paths} | condition.environment,
                preexec_fn=prepare,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=subprocess.DEVNULL,
                timeout=180,
                check=False,
            )
        return done.returncode, output.read_text(encoding="utf-8", errors="replace")
