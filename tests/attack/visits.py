"""Attacks by links that change, compressed bombs, shared addresses, many sockets and odd names."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

from graphviz_dash.ingest.byte_stream import zstd
from tests.attack.attacks import must
from tests.attack.files import witness
from tests.attack.server import ROOT, Dashboard, dashboard
from tests.attack.visitor import Visitor, request

_SECRET: Final = "machine example.org password 1234\n"
_PAGES: Final = ("compare", "timeline", "graph", "memory", "export")
_NAMES: Final = (
    *("-rf", "--help", "@file", "~", "$(id)", "`id`", "a;b|c&d", "a'b\"c", "*", "?[x]"),
    *("__proto__", "constructor", "toString", "null", "NaN", "CON", "a vs b", "%2e%2e", "%00"),
    *("<img src=x onerror=alert(1)>", "{{7*7}}", "=1+1", "javascript:alert(1)", "#?&=+"),
    *(
        "line\nfeed\r\t",
        "\x1b]0;x\x07",
        "\u202egpj.exe",
        "\ufeff",
        "\u2028",
        "e\u0301" * 40,
        "n" * 255,
    ),
)


@contextmanager
def _swap(path: Path, target: Path) -> Iterator[list[int]]:
    """Replace ``path`` by a link to ``target`` and back, as often as possible."""
    kept, link = path.with_name(f".{path.name}.kept"), path.with_name(f".{path.name}.link")
    kept.write_bytes(path.read_bytes())
    over, swaps = threading.Event(), [0]

    def swap() -> None:
        while not over.is_set():
            link.symlink_to(target)
            link.replace(path)
            shutil.copyfile(kept, link)
            link.replace(path)
            swaps[0] += 1

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield swaps
    finally:
        over.set()
        thread.join()


def swap_links(_: Dashboard) -> str:
    """Files that become links to a secret and files again while pages read them."""
    with dashboard(["decode"]) as own:
        secret = own.folder.parent / "secret"
        secret.write_text(_SECRET, encoding="utf-8")
        run = own.folder / "decode" / "eager"
        about = own.folder / "decode" / "about.txt"
        about.write_text("a description\n", encoding="utf-8")
        with (
            _swap(about, secret) as swaps,
            _swap(run / "clean.json", secret),
            _swap(run / "manifest.json", secret),
        ):
            for number in range(30):
                with Visitor(own.address).open("" if number % 3 else "compare") as visitor:
                    must("password 1234" not in visitor.text, "a link gave a file")
                    must(not visitor.problems, f"a page shows {visitor.problems}")
        with Visitor(own.address).open("compare", "experiment=decode") as visitor:
            must("Yes: " in visitor.text, "the experiment stays unreadable")
    return f"held: {swaps[0]:,} swaps during 30 visits"


def unpack_bombs(served: Dashboard) -> str:
    """Traces that are 100 GB of blanks in zstd, in nested frames, and in gzip within zstd."""
    part = zstd.compress(b" " * (64 << 20), 19)
    bombs = {
        "blanks.json.zst": part * 1_600,
        "open-list.json.zst": zstd.compress(b'{"traceEvents":[' + b" " * (1 << 20)) + part * 1_600,
        "list.json.zst": zstd.compress(b"[" * (16 << 20)) * 64,
        "gzip.json.zst": zstd.compress(gzip.compress(b" " * (64 << 20)) * 200),
        "cut.json.zst": part[: len(part) // 2],
        "window.json.zst": b"\x28\xb5\x2f\xfd\x00\xf8" + b"\x00" * 64,
    }
    with witness(served) as seen:
        for name, content in bombs.items():
            with Visitor(served.address).open() as visitor:
                visitor.upload([(name, content)])
                must(not visitor.problems, f"{name}: {visitor.problems}")
                must("uploaded by you" not in visitor.text, f"{name} was accepted")
    size = sum(map(len, bombs.values())) / 1e6
    return (
        f"held: {len(bombs)} of {size:.0f} MB refused, others within {seen.longest_s:.1f} s, "
        f"{seen.most_bytes / 1e9:.1f} GB"
    )


def share_links(_: Dashboard) -> str:
    """Addresses that visitors pass on: they hold no token, lead to no other site, run nothing."""
    hosts = ("//evil.example/", "/\\evil.example/", "/%2f%2fevil.example", "/%5cevil.example")
    values = (
        "<script>alert(1)</script>",
        "../../etc/passwd",
        "\x00",
        "x" * 20_000,
        "\ud800",
        "-1e999",
    )
    with dashboard(["decode"], ["--token"]) as own:
        query = own.link.partition("/?")[2]
        token = query.removeprefix("token=")
        for path in ("/", "/compare", *hosts):
            answer = request(own.address, f"{path}?experiment=decode&{query}")
            place = answer.headers.get("location", "/")
            must(place.startswith("/") and not place.startswith(("//", "/\\")), f"{path}: {place}")
            must(token not in place, f"{path} keeps the token")
            must(answer.status in (303, 400, 403, 404), f"{path} answered {answer.status}")
        visitor = Visitor(own.address)
        visitor.get(f"/?{query}", {"accept": "text/html"})
        for page in _PAGES:
            for value in values:
                text = quote(value, errors="surrogatepass")
                names = ("experiment", "run", "graph", "node", "step", "select", "runs", "find")
                for name in names[: 8 if value == values[0] else 3]:
                    base = "" if name == "experiment" else "experiment=decode&"
                    with visitor.open(page, f"{base}{name}={text}"):
                        must(not visitor.problems, f"{page} {name}: {visitor.problems}")
                        must("<script>alert" not in visitor.markup, f"{page} {name} runs a script")
                        must(token not in visitor.text, f"{page} shows the token")
    return f"held: {2 + len(hosts)} redirects stay here, pages of {len(_PAGES)} kinds hold no token"


def open_many_sockets(_: Dashboard) -> str:
    """Three hundred visitors who open a page, stay silent and vanish."""
    with dashboard(["decode"]) as own:
        with Visitor(own.address).open("compare", "experiment=decode"):
            before = own.server.memory_info().rss
        visitors = []
        with witness(own) as seen:
            for _ in range(300):
                visitors.append(Visitor(own.address).open())
            with Visitor(own.address).open("compare", "experiment=decode") as other:
                must(not other.problems, f"another page shows {other.problems}")
            grown = (own.server.memory_info().rss - before) / 300
            descriptors = own.server.num_fds()
            for visitor in visitors:
                visitor.drop()
            until = time.monotonic() + 60
            while own.server.num_fds() > descriptors - 250:
                must(time.monotonic() < until, f"{own.server.num_fds()} descriptors stay open")
                time.sleep(0.2)
        must(grown < 1e6, f"a visitor costs {grown / 1e3:.0f} kB")
    return f"held: {grown / 1e3:.0f} kB each, others within {seen.longest_s:.1f} s"


def use_hostile_names(_: Dashboard) -> str:
    """Experiments and runs with names that are options, markup, properties or controls."""
    with dashboard() as own:
        for name in _NAMES:
            folder = own.folder / name
            folder.mkdir()
            shutil.copytree(ROOT / "sample_traces" / "superset", folder / "superset")
        for name in _NAMES:
            sample = own.folder / name / "superset"
            (run := next(path for path in sample.iterdir() if path.is_dir())).rename(sample / name)
            must(not run.exists(), "the run was not renamed")
        with Visitor(own.address) as visitor:
            visitor.open()
            must(not visitor.problems, f"the Overview shows {visitor.problems}")
            for name in _NAMES:
                query = f"experiment={quote(f'{name}/superset')}"
                visitor.open("compare", query)
                must(not visitor.problems, f"{name!r}: {visitor.problems}")
                must("Experiment not found" not in visitor.text, f"{name!r} is not found")
        command = [sys.executable, "-P", "-m", "graphviz_dash.app.cli.main"]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        paths = [own.folder / name / "superset" for name in _NAMES]
        for words in (["ls", own.folder], *(["compare", path] for path in paths)):
            done = subprocess.run(
                [*command, *words],
                capture_output=True,
                env=environment,
                cwd=own.folder,
                check=False,
            )
            output = done.stdout + done.stderr
            must(done.returncode == 0, f"{words}: {output[-200:]!r}")
            must(not {7, 27} & set(output), f"{words}: controls reach the terminal")
    return f"held: {len(_NAMES)} names on two pages and in two commands"
