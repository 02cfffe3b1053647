"""Measures a server of 2,000 graphs of 500 nodes and 100,000 steps: the search for a ladder, what
analysis takes, and the page Graphs in a browser.

    python -m benchmarks.many_graphs [--graphs 2000] [--nodes 500] [--repeats 5] [--folder DIR]

The recording is synthetic (tests/loops.py); ``--folder`` keeps it. Prints tables of medians and
maxima.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser, sync_playwright

from benchmarks.page_figures import Row, row, show
from graphviz_dash.analysis.loop.family_report import LoopReport, build_loop_report
from graphviz_dash.bundle.read import read_node_names
from graphviz_dash.features.ladder.analysis.kernel_changes import find_kernel_changes
from graphviz_dash.features.ladder.analysis.ladder_advice import (
    build_ladder_basis,
    recommend_ladder,
)
from graphviz_dash.features.ladder.analysis.ladder_inputs import build_ladder_data
from graphviz_dash.features.ladder.analysis.ladder_problem import Budget, LadderProblem
from graphviz_dash.features.ladder.analysis.ladder_search import find_best_ladder
from graphviz_dash.features.ladder.charts.families import draw_family
from graphviz_dash.ingest.load import load_outlines
from graphviz_dash.model.absence import Missing
from tests.chromium import system_chromium
from tests.loops import make_server
from tests.serving import ROOT, served

STEPS = 100_000
NAME = "thousands"
OTHER = "few"
"""Small recording whose page is opened first, so that modules and scripts are loaded."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=2_000)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    show("the search, 512 sizes and 100,000 requests", searches(options.repeats))
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        if not (folder / NAME).exists():
            draw = random.Random(1)
            graph_count = options.graphs
            requests = [
                min(graph_count * 11 // 10, 1 + int(draw.expovariate(6 / graph_count)))
                for _ in range(STEPS)
            ]
            make_server(
                folder / NAME,
                sizes=range(1, graph_count + 1),
                requests=requests,
                nodes=options.nodes,
            )
        if not (folder / OTHER).exists():
            make_server(folder / OTHER)
        size = f"{options.graphs:,} graphs of {options.nodes} nodes"
        show(f"analysis, {size}", analysis(folder / NAME, options.repeats))
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=system_chromium(), args=["--no-sandbox", "--disable-gpu"]
            )
            show(f"the page, {size}", pages(browser, folder, options.repeats))


def timed(repeats: int, work: Callable[[], object]) -> list[float]:
    """Durations of ``work`` in ms."""
    times = []
    for _ in range(repeats):
        start_time = time.perf_counter()
        work()
        times.append((time.perf_counter() - start_time) * 1000)
    return times


def searches(repeats: int) -> list[Row]:
    """The best ladder of 512 sizes of random costs, under budgets that bind one after the other."""
    draw = np.random.default_rng(3)
    sizes = np.arange(1, 513) * 2
    requests, counts = np.unique(
        np.minimum(1 + draw.lognormal(4.5, 1, STEPS).astype(int), 1_400), return_counts=True
    )
    problem = LadderProblem(
        sizes=sizes,
        replay_ns=400e3 + sizes * 900.0 + draw.normal(0, 5e3, 512),
        exclusive_bytes=draw.integers(0, 8, 512) * float(1 << 20) + 3_072 * 400,
        pool_bytes=sizes * 150e3,
        startup_ns=1e8 + draw.normal(0, 1e7, 512),
        requests=requests,
        counts=counts.astype(float),
        fallback_ns=5e6 + requests * 1_000.0,
    )
    rows = []
    for label, budget in (
        ("100 graphs", Budget(100)),
        ("any number", Budget()),
        ("100 graphs, 500 MiB", Budget(100, 500 << 20)),
        ("100 graphs, 300 MiB, 3 s", Budget(100, 300 << 20, 3_000_000_000)),
    ):
        ladder = find_best_ladder(problem, budget)
        assert ladder is not None
        gap = (ladder.total_ns - ladder.bound_ns) / ladder.total_ns
        name = label if ladder.is_best else f"{label} (within {gap:.3%} of the best)"
        rows.append(row(name, timed(repeats, lambda b=budget: find_best_ladder(problem, b))))
    return rows


def analysis(experiment: Path, repeats: int) -> list[Row]:
    (run,) = load_outlines(experiment)
    report = build_loop_report(run)
    assert isinstance(report, LoopReport)
    family = report.families[0]
    data = build_ladder_data(report, family)
    assert not isinstance(data, Missing)
    basis = build_ladder_basis(data)
    ids = [graph for member in family.members for graph in member.member.graphs]
    names = read_node_names(run.path, ids)
    return [
        row("the loop read and checked", timed(repeats, lambda: load_outlines(experiment))),
        row("families, costs, losses", timed(repeats, lambda: build_loop_report(run))),
        row("what all advice rests on", timed(repeats, lambda: build_ladder_basis(data))),
        row(
            "advice with its interval", timed(repeats, lambda: recommend_ladder(basis, Budget(100)))
        ),
        row("the picture by size", timed(repeats, lambda: draw_family(family, (), "light"))),
        row("the names of all nodes", timed(repeats, lambda: read_node_names(run.path, ids))),
        row(
            "kernels of neighbours",
            timed(repeats, lambda: find_kernel_changes(family.members, names)),
        ),
    ]


def pages(browser: Browser, folder: Path, repeats: int) -> list[Row]:
    """From the address to the picture by size in a server that has not seen the recording, from a
    budget to its advice, and from a chosen row to the link to its graph."""
    open_ms, answer_ms, choice_ms = [], [], []
    for _ in range(repeats):
        with served(ROOT / "app.py", folder) as server:
            page = browser.new_page(viewport={"width": 1280, "height": 860})
            page.goto(f"{server.address}/launch?experiment={OTHER}")
            page.wait_for_timeout(6_000)
            start_time = time.perf_counter()
            page.goto(f"{server.address}/graphs?experiment={NAME}")
            page.locator(".js-plotly-plot .main-svg").first.wait_for(timeout=60_000)
            open_ms.append((time.perf_counter() - start_time) * 1000)
            page.get_by_text("Other kernels are chosen").wait_for(timeout=120_000)
            for graphs in ("64", "48", "32"):
                before = page.locator("code").first.inner_text()
                field = page.get_by_label("Graphs at most")
                field.fill(graphs)
                start_time = time.perf_counter()
                field.press("Enter")
                page.wait_for_function(
                    "before => document.querySelector('code')?.innerText !== before", arg=before
                )
                answer_ms.append((time.perf_counter() - start_time) * 1000)
            table = page.locator("[data-testid=stDataFrame] canvas").first
            table.scroll_into_view_if_needed()
            for line in (2, 4, 6):
                links = page.get_by_role("link", name="Show decode")
                before = links.first.inner_text() if links.count() else ""
                start_time = time.perf_counter()
                # What is clicked is a layer above the canvas.
                table.click(position={"x": 60, "y": 35 * line + 17}, force=True)
                page.wait_for_function(
                    "before => [...document.querySelectorAll('a')].some("
                    "a => a.innerText.includes('Show decode') && a.innerText !== before)",
                    arg=before,
                )
                choice_ms.append((time.perf_counter() - start_time) * 1000)
            page.close()
    return [
        row("address -> the picture by size, nothing read before", open_ms),
        row("a budget -> its advice", answer_ms),
        row("a row -> the link to its graph", choice_ms),
    ]


if __name__ == "__main__":
    main()
