"""Attacks by files that are uploaded, and on what others uploaded."""

from __future__ import annotations

import io
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.attack.attacks import must
from tests.attack.server import ROOT, Dashboard, dashboard
from tests.attack.visitor import Visitor
from tests.ingest.formats.test_pickles import attacks as pickles_that_run
from tests.ingest.hostile import HOSTILE, hostile_file

_SAMPLE = ROOT / "sample_traces" / "sync-in-step"
_MOST_BYTES = 3 << 30
"""Memory limit of the server and its children while they read a hostile file."""
_MOST_WAIT_S = 30.0
"""For an answer to somebody else meanwhile, on a machine that does other work."""
_REFUSED = "File cannot be opened"
_OPENED = "uploaded by you"
_LIMIT = "Remove an upload on the Overview page"


def archive(more: Mapping[str, bytes] | None = None) -> bytes:
    """A zip file of an experiment, with ``more`` members."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in _SAMPLE.rglob("*"):
            packed.write(file, Path("uploaded") / file.relative_to(_SAMPLE))
        for name, data in (more or {}).items():
            packed.writestr(name, data)
    return content.getvalue()


@dataclass
class Witness:
    """Another visitor's view of the server."""

    longest_s: float = 0.0
    """The longest that an answer took."""
    most_bytes: int = 0
    """Peak resident memory of the server and its children."""


@contextmanager
def witness(served: Dashboard) -> Iterator[Witness]:
    """Somebody else, who asks the server all the time; FellError where it leaves him waiting."""
    seen, over = Witness(), threading.Event()

    def look() -> None:
        while not over.wait(0.05):
            begun = time.monotonic()
            served.answers(60)
            seen.longest_s = max(seen.longest_s, time.monotonic() - begun)
            seen.most_bytes = max(seen.most_bytes, _resident(served.server))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()
    must(served.command.poll() is None, "the server ended")
    must(seen.longest_s < _MOST_WAIT_S, f"others waited for {seen.longest_s:.0f} s")
    must(seen.most_bytes < _MOST_BYTES, f"it took {seen.most_bytes / 1e9:.1f} GB")


def _resident(process: psutil.Process) -> int:
    total = 0
    for each in (process, *process.children(recursive=True)):
        try:
            total += each.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total


def hostile(*names: str) -> Callable[[Dashboard], str]:
    """The attempt with hostile files, of all without ``names``."""

    def attempt(served: Dashboard) -> str:
        chosen = names or HOSTILE
        told = 0
        with witness(served) as seen, Visitor(served.address).open() as other:
            for name in chosen:
                with Visitor(served.address).open() as visitor:
                    visitor.upload([(name, hostile_file(name))])
                    must(not visitor.problems, f"{name}: {visitor.problems}")
                    must("Traceback" not in visitor.text, f"{name}: a traceback is shown")
                    told += _REFUSED in visitor.text
                other.open("compare", "experiment=decode")
                must(not other.problems, f"{name}: another page shows {other.problems}")
        return (
            f"held: {told} of {len(chosen)} refused in one line, others read; answers to others "
            f"within {seen.longest_s:.1f} s, {seen.most_bytes / 1e9:.1f} GB"
        )

    return attempt


def code_in_pickles(served: Dashboard) -> str:
    """Pickles that run code where they are loaded."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "owned"
        cases = pickles_that_run(target)
        for name, content in cases.items():
            with Visitor(served.address).open() as visitor:
                visitor.upload([("snapshot.pickle", content)])
                must(not target.exists(), f"{name} ran code")
                must(_REFUSED in visitor.text, f"{name} was not refused")
    return f"held: {len(cases)} refused, none ran"


def zip_members(served: Dashboard) -> str:
    """Members that lead out of the folder, links, and 100 MB that no manifest lists."""
    outside = served.folder.parent / "escaped.json"
    more = {
        **{f"{'../' * depth}escaped.json": b"{}" for depth in range(1, 9)},
        str(outside): b"{}",
        "uploaded/eager/../../../escaped.json": b"{}",
        "uploaded/eager/graphs/filler.json": b" " * (100 << 20),
    }
    with Visitor(served.address).open() as visitor:
        visitor.upload([("x.zip", archive(more))])
        must(_OPENED in visitor.text, "the experiment in it was not opened")
        must(not list(served.folder.parent.rglob("escaped.json")), "a file was written outside")
        files = [served.temporary / path for path in served.left_behind]
        size = sum(path.stat().st_size for path in files if path.is_file())
        must(size < 5_000_000, f"{size / 1e6:.0f} MB were kept")
    return f"held: nothing outside, {size / 1e6:.1f} MB kept"


def others_uploads(served: Dashboard) -> str:
    """Reading what another visitor uploaded."""
    with Visitor(served.address).open() as owner, Visitor(served.address).open() as other:
        owner.upload([("x.zip", archive())])
        must(_OPENED in owner.text, "its owner does not see it")
        for page, query in (("", ""), ("compare", "experiment=uploaded"), ("export", "")):
            other.open(page, query)
            must(_OPENED not in other.text, "the Overview of another visitor lists it")
            must("uploaded/eager" not in other.text, "another visitor reads it")
        must(
            "Experiment not found" in other.open("compare", "experiment=uploaded").text,
            "it is shown",
        )
        with Visitor(served.address, owner.cookies).open("compare", "experiment=uploaded") as again:
            must("Experiment not found" not in again.text, "its owner's next page does not show it")
    return "held: seen by its owner's browser alone"


def too_many(served: Dashboard) -> str:
    most, refused, others = 20, 0, []
    with Visitor(served.address).open() as visitor:
        for number in range(most + 3):
            visitor.open().upload([("x.zip", archive())])
            if _LIMIT in visitor.text:
                refused += 1
            elif _REFUSED in visitor.text:
                # A busy machine may stop a reader: then this one does not count.
                others.append(visitor.text.partition(_REFUSED)[2][:200])
            must(refused == 0 or number >= most, f"the {number + 1}. was refused")
        kept = visitor.open().text.count("remove-")
        attempts = most + 3 - len(others)
        must(
            kept == min(attempts, most) and refused == max(attempts - most, 0) > 0,
            f"{kept} were kept, {refused} refused, others failed: {others}",
        )
        visitor.press("remove-")
        must(visitor.open().text.count("remove-") == kept - 1, "removing did not remove")
    return "held: the 21st is refused; a button removes"


def closed_page(served: Dashboard) -> str:
    """Return the remains of uploads after their owner closed all pages."""
    with Visitor(served.address).open() as visitor:
        visitor.upload([("x.zip", archive())])
    until = time.monotonic() + 120
    while files := _uploaded(served):
        must(time.monotonic() < until, f"{len(files)} files remain after two minutes")
        time.sleep(1)
    return f"held: gone after {120 - (until - time.monotonic()):.0f} s"


def _uploaded(served: Dashboard) -> list[str]:
    return [path for path in served.left_behind if "/uploads/" in path and path.endswith(".json")]


def signals(*numbers: int) -> Callable[[Dashboard], str]:
    """The attempt to find something in the temporary folder after the server was ended."""

    def attempt(_: Dashboard) -> str:
        for number in numbers:
            with dashboard() as own, Visitor(own.address).open() as visitor:
                visitor.upload([("x.zip", archive())])
                must(_uploaded(own), "nothing was kept to begin with")
                own.command.send_signal(number)
                own.command.wait(60)
                must(not own.answers(), f"signal {number} did not end the server")
                must(not own.left_behind, f"{own.left_behind[:2]} remain after signal {number}")
        return f"held: nothing remains after {len(numbers)} signals"

    return attempt


def while_reading(_: Dashboard) -> str:
    """SIGTERM while a file is read that takes for ever."""
    with dashboard() as own, Visitor(own.address).open() as visitor:
        visitor.upload([("x.json.gz", hostile_file("empty-lists.json.gz"))], wait=False)
        until = time.monotonic() + 60
        while len(own.server.children()) == 0 and time.monotonic() < until:
            time.sleep(0.05)
        begun = time.monotonic()
        own.command.terminate()
        own.command.wait(60)
        took = time.monotonic() - begun
        must(not own.left_behind, f"{own.left_behind[:2]} remain")
        must(not own.answers(), "the server still answers")
    return f"held: ended after {took:.1f} s, nothing remains"
