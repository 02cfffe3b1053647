"""Attacks by the start folder, on the process and on its output."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress

from tests.attack.attacks import must
from tests.attack.files import archive, witness
from tests.attack.server import ROOT, Dashboard, dashboard
from tests.attack.visitor import Visitor, request

_SETTINGS = "[server]\nenableCORS = false\nenableXsrfProtection = false\nenableAgentApi = true\n"
_MODULES = ("secrets", "streamlit", "numpy", "polars", "sitecustomize", "usercustomize")


def working_folder(_: Dashboard) -> str:
    """Put modules and settings next to the experiments in the start folder."""
    code = "import pathlib; (pathlib.Path(__file__).parent / 'ran').touch()\n"
    planted = {f"{name}.py": code for name in _MODULES}
    planted |= {".streamlit/config.toml": _SETTINGS, ".streamlit/secrets.toml": 'a = "b"\n'}
    with dashboard(["decode"], planted=planted) as own:
        with Visitor(own.address).open("compare", "experiment=decode") as visitor:
            visitor.open().upload([("x.zip", archive())])
            must("uploaded by you" in visitor.text, "an upload is not read")
        must(not (own.folder / "ran").exists(), "a module of the folder ran")
        agent = request(own.address, "/_stcore/agent/interact", method="POST", body=b"{}")
        must(agent.status in (403, 404, 405), "the agent API of the folder's settings is on")
        status = request(own.address, "/", headers={"Origin": "http://evil.example"}).status
        must(status == 403, "the folder's settings let other origins in")
    return f"held: none of {len(_MODULES)} modules ran, settings do not count"


def try_names_and_descriptions(_: Dashboard) -> str:
    """Folders and runs whose names are not text, and an ``about.txt`` that is a pipe or a link."""
    with dashboard(["decode", "mlp-train", "fork-join", "superset"]) as target:
        folder = target.folder
        (folder / "fork-join").rename(folder / os.fsdecode(b"bad\xff"))
        (folder / "superset" / "graph").rename(folder / "superset" / os.fsdecode(b"graph\xff"))
        shutil.copytree(folder / "mlp-train", folder / "line\nfeed\x1b]0;x\x07")
        secret = folder.parent / "secret"
        secret.write_text("machine example.org password 1234\n", encoding="utf-8")
        for name in ("decode", "mlp-train"):
            (folder / name / "about.txt").unlink(missing_ok=True)
        os.mkfifo(folder / "decode" / "about.txt")
        (folder / "mlp-train" / "about.txt").symlink_to(secret)
        with Visitor(target.address) as visitor:
            visitor.open()
            must(not visitor.problems, f"the Overview shows {visitor.problems}")
            must("password 1234" not in visitor.text, "a link gave a file")
            must(r"bad\\udcff" in visitor.text, "the folder that was skipped is not reported")
            for page in ("compare", "timeline", "graph", "export"):
                visitor.open(page, "experiment=decode")
                must(not visitor.problems, f"{page} shows {visitor.problems}")
    return "held: skipped and reported; four pages of another experiment are there"


def run_that_arrives(served: Dashboard) -> str:
    """A run that arrives, and a folder that is replaced, while a page shows the experiment."""
    shutil.copytree(ROOT / "sample_traces" / "mlp-train", served.folder / "late")
    for run in (served.folder / "late").iterdir():
        if run.name not in ("eager", "graph"):
            shutil.rmtree(run) if run.is_dir() else run.unlink()
    (served.folder / "late" / "graph").rename(served.folder / "aside")
    with Visitor(served.address).open("compare", "experiment=late") as visitor:
        before = visitor.text
        (served.folder / "aside").rename(served.folder / "late" / "graph")
        visitor.rerun()
        must("changed on disk" in visitor.text, "the page does not say that it changed")
        must("Yes: graph is" in visitor.text, "the run that arrived is not compared")
        must("Yes: graph is" not in before, "it was compared before it was there")
        shutil.rmtree(served.folder / "late")
        shutil.copytree(ROOT / "sample_traces" / "sync-in-step", served.folder / "late")
        visitor.rerun()
        must("changed on disk" in visitor.text, "the page does not say that it was replaced")
        must("sync_in_step" in visitor.text, "the old experiment is still shown")
    shutil.rmtree(served.folder / "late")
    return "held: shown at the next look, and said"


def few_descriptors(_: Dashboard) -> str:
    """Page after page where 256 descriptors are the soft limit, as macOS has it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        with dashboard(["decode"]) as own:
            for number in range(300):
                with Visitor(own.address).open("compare", "experiment=decode") as visitor:
                    must(not visitor.problems, f"load {number} shows {visitor.problems}")
            count = own.server.num_fds()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return f"held: 300 page loads, {count} descriptors"


def killed_command(_: Dashboard) -> str:
    """kill -9 of ``serve``, and then of the server itself while it keeps uploads."""
    with dashboard() as own, Visitor(own.address).open() as visitor:
        visitor.upload([("x.zip", archive())])
        own.command.kill()
        own.command.wait(60)
        until = time.monotonic() + 30
        while own.answers(1) or own.left_behind:
            must(time.monotonic() < until, "the server outlives serve, or its uploads it")
            time.sleep(0.1)
    with dashboard() as own, Visitor(own.address).open() as visitor:
        visitor.upload([("x.zip", archive())])
        own.server.send_signal(signal.SIGKILL)
        own.command.wait(60)
        must(not own.left_behind, f"{own.left_behind[:2]} remain of a killed server")
    return "held: the server ends with it; what a killed one left is swept"


def flood(_: Dashboard) -> str:
    """Requests to run a page again, as fast as six sockets can send them."""
    with dashboard(["decode"]) as own:
        visitors = [Visitor(own.address).open("compare", "experiment=decode") for _ in range(6)]
        sent = 0
        with witness(own) as seen:
            for visitor in visitors:
                sent += visitor.flood(3_000)
            with Visitor(own.address).open() as other:
                must(not other.problems, f"another page shows {other.problems}")
            for visitor in visitors:
                visitor.drop()
    return f"held: answers to others within {seen.longest_s:.1f} s during {sent} requests"


def slow_uploads(served: Dashboard) -> str:
    """Two hundred uploads, a byte at a time, and requests that never end."""
    host, _, port = served.address.partition("//")[2].rpartition(":")
    sockets: list[socket.socket] = []
    with witness(served) as seen, Visitor(served.address).open() as visitor:
        head = visitor.format_upload_head(500_000_000)
        for text in (head, b"GET / HTTP/1.1\r\nHost: x"):
            for _ in range(200):
                sockets.append(socket.create_connection((host, int(port)), 10))
                sockets[-1].sendall(text)
            for _ in range(5):
                for each in sockets:
                    with suppress(OSError):
                        each.sendall(b"x")
                time.sleep(0.1)
            with Visitor(served.address).open("compare", "experiment=decode") as other:
                must(not other.problems, f"another page shows {other.problems}")
        for each in sockets:
            each.close()
    return f"held: answers to others within {seen.longest_s:.1f} s"


def sweep_at_start(_: Dashboard) -> str:
    """Kill serve and the server with -9; the next start cleans up."""
    with dashboard() as own, Visitor(own.address).open() as visitor:
        visitor.upload([("x.zip", archive())])
        server = own.server
        own.command.send_signal(signal.SIGSTOP)
        server.kill()
        own.command.kill()
        own.command.wait(60)
        must(own.left_behind, "nothing remained to be swept")
        code = (
            "from graphviz_dash.ui.state.scratch import remove_scratch_of_killed as sweep; sweep()"
        )
        environment = {"TMPDIR": str(own.temporary)}
        subprocess.run([sys.executable, "-c", code], env=environment, check=True, cwd=ROOT)
        must(not own.left_behind, f"{own.left_behind[:2]} remain")
    return "held: the next server removes it as it starts"
