"""Measures the page Compile with thousands of compiled functions: address to the first row of the
program's tree, a search, a function unfolded, and frames while it is scrolled.

    python -m benchmarks.compile_page [--frames 5000] [--repeats 5]

The account is synthetic, beside the trace of the sample ``mlp-train``. Prints a table of medians
and maxima.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path
from typing import Final

import msgspec
from playwright.sync_api import Page, sync_playwright

from benchmarks.page_figures import Row, row, show
from graphviz_dash.bundle import parts
from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.bundle.write import BundleWriter
from graphviz_dash.model.compilation import (
    Compilation,
    CompilationFact,
    CompiledFrame,
    CompiledGraph,
    FactSource,
    GraphBreak,
    UserLine,
)
from graphviz_dash.model.run import FORMAT_VERSION, FileRole
from tests.chromium import system_chromium
from tests.serving import ROOT, served

NAME: Final = "functions"
RESTS: Final = 3

_SCROLL: Final = """async () => {
  const list = [...document.querySelectorAll("*")].map((each) => each.shadowRoot)
    .find((root) => root?.querySelector(".program")).querySelector(".list");
  const times = [];
  let last = performance.now();
  for (let i = 0; i < 60; i++) {
    list.scrollTop = (i * list.scrollHeight) / 60;
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    times.push(now - last);
    last = now;
  }
  return times;
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=5_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        folder = Path(scratch)
        write(folder / NAME / "compile", account(options.frames))
        browser = playwright.chromium.launch(
            executable_path=system_chromium(), args=["--no-sandbox", "--disable-gpu"]
        )
        with served(ROOT / "app.py", folder) as server:
            page = browser.new_page(viewport={"width": 1440, "height": 1000})
            show(
                f"the page, {options.frames:,} frames",
                measured(page, server.address, options.repeats),
            )


def account(frames: int) -> Compilation:
    """Functions of four compilations each: a begin and the rests behind three breaks."""
    code = "".join(
        f"        # File: model.py:{line} in forward, code: x = layer(x)\n"
        f"        y{line}: 'f32[8, 8]' = x.sin()\n"
        for line in range(60)
    )
    compiled, breaks, graphs = [], [], []
    for number in range(frames):
        function, rest = divmod(number, RESTS + 1)
        line = 10 * function + rest + 1
        name = f"layer_{function}"
        compiled.append(
            CompiledFrame(
                id=f"{number}/0",
                function=name,
                location=UserLine("model.py", line, name),
                is_continuation=rest > 0,
                callers=(UserLine("train.py", 7, "main"),),
                nodes=30,
                guards=12,
                compile_ns=900_000_000,
                code=code,
            )
        )
        if rest < RESTS:
            at = UserLine("model.py", line + 1, name, "print(x)")
            reason = "Failed to trace builtin operator `print`"
            breaks.append(GraphBreak(f"{number}/0", reason, None, (), None, (at,)))
        graphs.append(CompiledGraph(f"{number}/0", f"key{number}", False, False))
    sources = tuple(FactSource(fact, "structured trace") for fact in CompilationFact)
    return Compilation("2.11", sources, tuple(compiled), tuple(breaks), graphs=tuple(graphs))


def write(folder: Path, compilation: Compilation) -> None:
    sample = read_bundle(ROOT / "sample_traces" / "mlp-train" / "compile")
    folder.parent.mkdir(parents=True)
    trace = shutil.copy(sample.path / "traces" / "replay.json.gz", folder.parent.parent / "t.gz")
    with BundleWriter(folder) as writer:
        writer.add(parts.COMPILATION, compilation)
        writer.add_trace(FileRole.REPLAY_TRACE, Path(trace))
        writer.commit(
            msgspec.structs.replace(sample.manifest, version=FORMAT_VERSION, files=(), absent=())
        )


def measured(page: Page, address: str, repeats: int) -> list[Row]:
    first, repeat_times, search_times, unfold_times, frames = [], [], [], [], []
    for repeat in range(repeats + 1):
        start_time = time.perf_counter()
        page.goto(f"{address}/compile?experiment={NAME}")
        page.locator(".program .row").first.wait_for(timeout=120_000)
        (repeat_times if repeat else first).append((time.perf_counter() - start_time) * 1000)
        rows, search = page.locator(".program .row"), page.locator(".program input")
        start_time = time.perf_counter()
        rows.first.locator(".fold").click()
        page.locator('.program .row[aria-level="2"]').first.wait_for()
        unfold_times.append((time.perf_counter() - start_time) * 1000)
        start_time = time.perf_counter()
        search.fill("layer_777")
        page.locator(".program .count", has_text=" of ").wait_for()
        search_times.append((time.perf_counter() - start_time) * 1000)
        search.fill("")
        frames += page.evaluate(_SCROLL)
    return [
        row("address to the first row, in a server that has read nothing", first),
        row("address to the first row, again", repeat_times),
        row("a function unfolded", unfold_times),
        row("a search, key to result", search_times),
        row("a frame while scrolling, 95%", [sorted(frames)[int(len(frames) * 0.95)]]),
    ]


if __name__ == "__main__":
    main()
