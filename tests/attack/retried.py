"""Commands of a review that need full disks, large uploads, logs or ended commands."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import deflate
import msgspec
import psutil

from tests.attack.attacks import must
from tests.attack.files import archive, witness
from tests.attack.reviewed import (
    CAPTURE,
    collect,
    make_folder,
    run_command,
    start,
    wait_for,
    wait_until,
)
from tests.attack.server import ROOT, Dashboard, dashboard
from tests.attack.visitor import Visitor
from tests.many_experiments import SMALL_SAMPLES, make_experiments

_MEGABYTE: Final = 1_000_000
_PREFIX: Final = "V0101 00:00:00.000000 1 torch/_dynamo/x.py:1] "
_FRAME: Final = {"frame_id": 0, "frame_compile_id": 0}
_START: Final = {
    **_FRAME,
    "dynamo_start": {"stack": [{"name": "f", "filename": "a.py", "line": 1}]},
}
_MAX_LOG_S: Final = 60.0
_MANY: Final = 5_000
_MAX_CPU_S: Final = 60.0
"""CPU time of the server and its helper, which other load does not change."""


def claim_foreign_hash(_: Dashboard) -> str:
    """Defect 2: a manifest that claims the hash of another experiment's trace.

    One look at its Graphs page let the other experiment show a quarter of its GPU times.
    """
    with dashboard(["decode", "recorded-server"]) as served:
        environment = {"GRAPHVIZ_DASH_CACHE": str(served.folder.parent / "cache")}
        honest = ROOT / "sample_traces" / "decode" / "eager"
        run = served.folder / "recorded-server" / "vllm-sizes"
        trace = _get_trace_entry(honest)
        manifest = msgspec.json.decode((run / "manifest.json").read_bytes())
        (entry,) = (file for file in manifest["files"] if file["role"] == trace["role"])
        content = _shorten_kernels((honest / trace["path"]).read_bytes(), trace["bytes"])
        (run / entry["path"]).unlink()
        entry |= {"path": trace["path"], "bytes": len(content), "sha256": trace["sha256"]}
        (run / trace["path"]).write_bytes(content)
        (run / "manifest.json").write_bytes(msgspec.json.encode(manifest))
        must(len(content) == trace["bytes"], "the forged trace has another size")
        with Visitor(served.address) as visitor:
            for page in ("graphs", "timeline", "graph"):
                visitor.open(page, "experiment=recorded-server")
                must(not visitor.problems, f"{page} shows {visitor.problems}")
        output = run_command(served.folder, "compare", "decode", environment=environment)[1]
        with make_folder("decode") as other:
            expected = run_command(other, "compare", "decode")[1]
        must(output == expected, "the other experiment shows other figures")
        code, output = run_command(served.folder, "validate", "recorded-server")
        must(code != 0 and "sha256" in output, f"validate says {output[-200:]}")
    return "held: equal figures of the other experiment; validate reports the hash"


def _get_trace_entry(run: Path) -> dict[str, Any]:
    manifest = msgspec.json.decode((run / "manifest.json").read_bytes())
    return next(file for file in manifest["files"] if file["role"] == "replay-trace")


def _shorten_kernels(content: bytes, size: int) -> bytes:
    trace = json.loads(gzip.decompress(content))
    for event in trace["traceEvents"]:
        if event.get("cat") == "kernel":
            event["dur"] = round(event["dur"] / 4)
    shorter = bytes(deflate.gzip_compress(json.dumps(trace, separators=(",", ":")).encode(), 12))
    # A gzip file may end with zeros.
    return shorter + bytes(max(size - len(shorter), 0))


def fill_disk(_: Dashboard) -> str:
    """Defect 6: the exit code of a program whose recording fills the disk."""
    with make_folder() as folder, _mount_small_disk(folder) as disk:
        if disk is None:
            return "not tried: needs root, which may mount a small disk"
        for name in ("scratch", "output"):
            filler = f"open({str(disk / 'filler')!r}, 'wb').write(b' ' * 900_000)\n"
            fill = f"try:\n    {filler}    os.sync()\nexcept OSError:\n    pass\n"
            program = f"import os\n{CAPTURE}{fill}raise SystemExit(5)\n"
            environment = {"TMPDIR": str(disk)} if name == "scratch" else {}
            output = str(disk / "out") if name == "output" else name
            process = collect(folder, program, output=output, environment=environment)
            errors = process.communicate(timeout=120)[1]
            must(process.returncode == 5, f"{name}: 5 became {process.returncode}: {errors}")
            must("Traceback" not in errors, f"{name}: {errors[-300:]}")
            for path in disk.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    return "held: 5 stays 5 with a full temporary or output disk"


@contextmanager
def _mount_small_disk(folder: Path) -> Iterator[Path | None]:
    disk = folder / "disk"
    disk.mkdir()
    command = ("mount", "-t", "tmpfs", "-o", "size=1m", "none", str(disk))
    if subprocess.run(command, capture_output=True, check=False).returncode:
        yield None
        return
    try:
        yield disk
    finally:
        subprocess.run(("umount", "-l", str(disk)), check=False)


def exceed_quota(_: Dashboard) -> str:
    """Defect 7: deletes without a token, forged lengths, cancelled uploads, invented visitors."""
    with dashboard(["decode"]) as served, witness(served) as seen:
        with Visitor(served.address).open() as visitor:
            statuses = []
            for _number in range(6):
                path = visitor.make_upload_path()
                statuses.append(_put(visitor, 250 * _MEGABYTE, path=path))
                refused = visitor.delete(path)
                must(refused.status == 403, f"a delete without a token gives {refused.status}")
            must(statuses == [204] * 4 + [413] * 2, f"250 MB each: {statuses}")
        with Visitor(served.address).open() as visitor:
            statuses = [_put(visitor, 600 * _MEGABYTE, claimed=10) for _ in range(2)]
            must(statuses[-1] != 204, f"a forged length: {statuses}")
        with Visitor(served.address).open() as visitor:
            for _number in range(2):
                _put(visitor, 500 * _MEGABYTE, sent=1 << 20)
            status = _put(visitor, 60 * _MEGABYTE)
            must(status == 204, f"60 MB after two cancelled uploads: {status}")
        with Visitor(served.address).open() as visitor:
            (cookie,) = (name for name in visitor.cookies if "visitor" in name)
            for number in range(20):
                stranger = Visitor(served.address, {**visitor.cookies, cookie: f"{number:032x}"})
                stranger.session = visitor.session
                _put(stranger, 500 * _MEGABYTE, sent=0)
            visitor.upload([("x.zip", archive())])
            must("uploaded by you" in visitor.text, "uploads of others are blocked")
    return f"held: 4 of 6 times 250 MB, others upload; {seen.most_bytes / 1e9:.1f} GB"


def _put(
    visitor: Visitor,
    size: int,
    *,
    path: str = "",
    claimed: int | None = None,
    sent: int | None = None,
) -> int:
    """Upload ``size`` bytes by a raw socket and return the status; 0 if cancelled or closed.

    With ``claimed``, in chunks and with another length. With ``sent``, cancel after these bytes.
    """
    name = f"f{time.monotonic_ns()}"
    head = visitor.format_upload_head(size if claimed is None else claimed, path).decode()
    lines = head.partition("\r\n\r\n")[0]
    if claimed is not None:
        lines += "\r\nTransfer-Encoding: chunked"
    form = f'--b\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    end = b"\r\n--b--\r\n"
    filler = bytes(size - len(form) - len(end))
    host, _, port = visitor.address.partition("//")[2].rpartition(":")
    with socket.create_connection((host, int(port)), 120) as connection:
        with suppress(OSError):  # refused while it is sent
            connection.sendall(f"{lines}\r\n\r\n".encode())
            body = form.encode() + filler + end
            for start_byte in range(0, len(body) if sent is None else sent, 1 << 20):
                part = body[start_byte : start_byte + (1 << 20)]
                if claimed is None:
                    connection.sendall(part)
                else:
                    connection.sendall(b"%x\r\n%b\r\n" % (len(part), part))
            if claimed is not None:
                connection.sendall(b"0\r\n\r\n")
        if sent is not None:
            return 0
        with suppress(OSError):
            answer = connection.recv(64).split()
            return int(answer[1]) if len(answer) > 1 else 0
    return 0


def contact_nobody(_: Dashboard) -> str:
    """Defect 9: each address that an open server connects to, by ``strace``."""
    if shutil.which("strace") is None:
        return "not tried: needs strace"
    with make_folder("decode") as folder, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
        probe.close()
        log = folder / "calls"
        trace = ("strace", "-f", "-qq", "-e", "trace=connect,sendto", "-o", str(log))
        serve = ("serve", "--host", "0.0.0.0", "--port", str(port), "--no-token")
        process = start(folder, *serve, prefix=trace)
        try:
            address = f"http://127.0.0.1:{port}"
            wait_until(lambda: _answers(port), "the server does not start")
            with Visitor(address).open() as visitor:
                must(not visitor.problems, f"the Overview shows {visitor.problems}")
        finally:
            for child in psutil.Process(process.pid).children():
                child.terminate()
            errors = process.communicate(timeout=60)[1]
        must("everybody" in errors, f"no warning: {errors[-200:]}")
        calls = log.read_text(encoding="utf-8", errors="replace").splitlines()
        foreign = [call for call in calls if "AF_INET" in call and '"127.0.0.1"' not in call]
        must(calls, "strace shows no call")
        must(not foreign, f"it connects: {foreign[:2]}")
    return f"held: a warning, and no other address in {len(calls)} calls"


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def end_workers(_: Dashboard) -> str:
    """Defect 10: signals for ``import FOLDER`` and ``fleet`` while their workers read."""
    count = 0
    for command in (("import", "many", "-o", "out"), ("fleet", "many")):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGKILL):
            with make_folder() as folder:
                (folder / "tmp").mkdir()
                (folder / "many").mkdir()
                source = ROOT / "sample_traces" / "decode" / "eager"
                trace = source / _get_trace_entry(source)["path"]
                for copy in range(60):
                    os.link(trace, folder / "many" / f"{copy}.json.gz")
                environment = {"TMPDIR": str(folder / "tmp"), "GRAPHVIZ_DASH_CACHE": "off"}
                process = start(folder, *command, "--workers", "2", environment=environment)
                own = psutil.Process(process.pid)
                wait_until(partial(_has_workers, own), "no workers")
                children = own.children(recursive=True)
                process.send_signal(number)
                process.communicate(timeout=60)
                alive = psutil.wait_procs(children, timeout=20)[1]
                must(not alive, f"{len(alive)} processes stay after {number.name}")
                left = [path.name for path in (folder / "tmp").iterdir()]
                must(not left or number == signal.SIGKILL, f"{left} stay after {number.name}")
                count += 1
    return f"held: no process and no file stays after {count} signals"


def _has_workers(process: psutil.Process) -> bool:
    return len(process.children(recursive=True)) > 2


def read_hostile_logs(_: Dashboard) -> str:
    """Defect 11: TORCH_TRACE logs with huge counts, lone surrogates, blanks and many records."""
    metrics = {**_FRAME, "compilation_metrics": {"graph_op_count": "many"}}
    large = {**_FRAME, "compilation_metrics": {"graph_op_count": 1 << 63}}
    reasons = {**_FRAME, "artifact": {"name": "recompile_reasons"}}
    guard = _format_record(reasons, "a" + " " * 60_000)
    long_line = _PREFIX + '{"a": "' + "a" * 63_000_000 + '"}\n'
    limits = [_format_break(number) for number in range(20_000)]
    logs = {
        "a count that is text": [_format_record(_START), _format_record(metrics)],
        "a count of 2^63": [_format_record(_START), _format_record(large)],
        "a lone surrogate": [
            _format_record(_START),
            _format_record(reasons, '["\\ud800"]'),
        ],
        "a guard of 60,000 blanks": [_format_record(_START), guard],
        "a guard of 3 MB": [_format_record(_START), guard * 50],
        "20,000 records of a limit": [_format_record(_START), *limits],
        "a line of 63 MB": [_format_record(_START), long_line],
    }
    longest_s = 0.0
    with make_folder() as folder:
        for number, (name, lines) in enumerate(logs.items()):
            (folder / "log").mkdir()
            file = folder / "log" / "dedicated_log_torch_trace_x.log"
            file.write_text("".join(lines), encoding="utf-8")
            start_s = time.monotonic()
            code, output = run_command(folder, "import", "log", "-o", f"out-{number}")
            duration_s = time.monotonic() - start_s
            longest_s = max(longest_s, duration_s)
            must(duration_s < _MAX_LOG_S, f"{name}: {duration_s:.0f} s")
            if code == 0:
                code, output = run_command(folder, "validate", f"out-{number}")
                must(code == 0, f"{name}: the bundle is unreadable: {output[-200:]}")
            shutil.rmtree(folder / "log")
    return f"held: {len(logs)} logs in at most {longest_s:.1f} s, readable bundles"


def _format_record(metadata: object, payload: str = "") -> str:
    lines = f"\n\t{payload}" if payload else ""
    return f"{_PREFIX}{json.dumps(metadata)}{lines}\n"


def _format_break(number: int) -> str:
    frame = {"frame_id": number, "frame_compile_id": 0}
    reason = "RecompileLimitExceeded: limit reached\nExplanation: x"
    metadata = {**frame, "artifact": {"name": "dynamo_graph_break_reason"}}
    return _format_record(metadata, reason.replace("\n", "\n\t"))


def write_beside(_: Dashboard) -> str:
    """Defect 12: outputs next to files with the names of their drafts."""
    with make_folder("decode") as folder, make_folder() as other:
        (other / "victim").write_text("kept", encoding="utf-8")
        commands: Sequence[tuple[str, Sequence[str]]] = (
            ("cal.json", ("calibrate", "decode", "-o", "cal.json")),
            ("env", ("calibrate", "decode", "-o", "env")),
            ("page.html", ("export", "report", "decode", "-o", "page.html")),
            ("ranks.parquet", ("fleet", "decode", "-o", ".")),
        )
        for name, command in commands:
            (folder / f".{name}").write_text("kept", encoding="utf-8")
            (folder / f".{name}.part").symlink_to(other / "victim")
            code, output = run_command(folder, *command)
            must((folder / f".{name}").read_text(encoding="utf-8") == "kept", f".{name} changed")
            must((folder / name).exists() or code != 0, f"{command}: {output[-200:]}")
        must((other / "victim").read_text(encoding="utf-8") == "kept", "a link was followed")
    return f"held: {len(commands)} neighbours and a link's target keep their content"


def kill_collect(_: Dashboard) -> str:
    """Defect 15: ``kill -9`` of ``collect`` while the program runs on."""
    wait = "import time\nopen('ready', 'w').close()\ntime.sleep(5)\nopen('ended', 'w').close()\n"
    with make_folder() as folder:
        (folder / "tmp").mkdir()
        environment = {"TMPDIR": str(folder / "tmp")}
        process = collect(folder, CAPTURE + wait, environment=environment)
        wait_for(folder / "ready")
        time.sleep(2)
        process.kill()
        process.communicate()
        wait_for(folder / "ended")
        time.sleep(1)
        after = collect(folder, CAPTURE, environment=environment)
        errors = after.communicate(timeout=120)[1]
        must(after.returncode == 0, errors[-200:])
        bundles = sorted(path.parent.name for path in (folder / "out").glob("*/manifest.json"))
        must(bundles == ["taken", "taken-2"], f"{bundles} after the next: {errors[-300:]}")
        output = run_command(folder, "validate", "out")[1]
        must("taken" in output, output[-200:])
    return "held: the program ends; the next command finishes its recording"


def open_many_experiments(_: Dashboard) -> str:
    """Defect 13: 5,000 experiments that no earlier command has read."""
    with tempfile.TemporaryDirectory(prefix="attack-") as scratch:
        for name in SMALL_SAMPLES:
            shutil.copytree(ROOT / "sample_traces" / name, Path(scratch) / "samples" / name)
        folder = Path(scratch) / "many"
        make_experiments(folder, _MANY, Path(scratch) / "samples")
        with dashboard(options=[str(folder)]) as served, witness(served) as seen:
            with Visitor(served.address) as visitor:
                open_s = _measure_page(visitor, "", "<article")
                cpu_s = sum(map(_get_cpu_s, (served.server, *served.server.children())))
                search_s = _measure_page(visitor, f"find=experiment-{_MANY // 2:05d}", "<article")
            server_bytes = served.server.memory_info().rss
    must(cpu_s < _MAX_CPU_S, f"the first page uses {cpu_s:.0f} s of CPU time")
    must(server_bytes < 600_000_000, f"the server uses {server_bytes / 1e6:.0f} MB")
    return (
        f"held: page {open_s:.1f} s ({cpu_s:.1f} s of CPU time), search {search_s:.1f} s, "
        f"server {server_bytes / 1e6:.0f} MB, others within {seen.longest_s:.1f} s"
    )


def _get_cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _measure_page(visitor: Visitor, query: str, markup: str) -> float:
    """Return the seconds until a page without any earlier result is complete."""
    start_s = time.monotonic()
    visitor.open("", query)
    must(not visitor.problems, f"the Overview shows {visitor.problems}")
    must(markup in visitor.text, "no experiment is shown")
    return time.monotonic() - start_s
