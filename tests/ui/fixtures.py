from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Final

import pytest
import streamlit as st
from playwright.sync_api import Browser, BrowserContext, Page, expect
from streamlit.components.v2 import manifest_scanner
from streamlit.runtime.scriptrunner.script_cache import ScriptCache
from streamlit.testing.v1 import local_script_runner
from streamlit.testing.v1.local_script_runner import LocalScriptRunner

from graphviz_dash.app.overview import page as overview
from graphviz_dash.features.graph.page import page as graph
from graphviz_dash.server_settings import STARTED_IN_VARIABLE
from graphviz_dash.ui.state import catalogue
from tests.bundle.examples import MEMORY_PASS
from tests.chromium import PATIENCE_MS
from tests.experiments import chain, fork_join, make_experiment, make_run
from tests.loops import make_server
from tests.samples import SAMPLES
from tests.serving import ROOT, served
from tests.ui.standing import lent, standing_tab

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="session", autouse=True)
def _packages_are_searched_once() -> Iterator[None]:
    """Search installed packages for components once: a search takes longer than most pages."""
    with pytest.MonkeyPatch.context() as patched:
        scan = cache(manifest_scanner.scan_component_manifests)
        patched.setattr(manifest_scanner, "scan_component_manifests", scan)
        yield


@pytest.fixture(scope="session", autouse=True)
def _scripts_are_compiled_once() -> Iterator[None]:
    """Compile the script of pages without a browser once: each run would compile it again."""
    with pytest.MonkeyPatch.context() as patched:
        compiled = ScriptCache()
        patched.setattr(local_script_runner, "ScriptCache", lambda: compiled)
        yield


@pytest.fixture(scope="session", autouse=True)
def _threads_of_pages_are_joined() -> Iterator[None]:
    """Join the thread of a page's script instead of asking a thousand times a second if it ended.

    Both threads need the interpreter's lock.
    """
    with pytest.MonkeyPatch.context() as patched:
        require = local_script_runner.require_widgets_deltas

        def join(runner: LocalScriptRunner, timeout: float = 3) -> None:
            thread = runner._script_thread
            assert thread is not None
            thread.join(timeout)
            require(runner, 1 if runner.script_stopped() else 0)

        patched.setattr(local_script_runner, "require_widgets_deltas", join)
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_browser_is_given_time_to_draw() -> Iterator[None]:
    """Skip pauses for drawing in pages without a browser; servers of tests keep them."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(overview, "_DRAWING_S", 0.0)
        patched.setattr(graph, "_REQUEST_TIMEOUT_S", 0.0)
        yield


SERVED: Final = (
    *("all-nodes", "compile-fixes", "decode", "experts", "fork-join", "gpt-train", "launch-h200"),
    *("mlp-train", "moved-inputs", "recorded-lightning", "recorded-server", "sync-in-step"),
    *("tp-transformer", "transformer-train"),
)
"""Samples for browsers: one of each kind, because all take 15 s more
(tests/ui/views/test_samples_open.py opens them)."""


@pytest.fixture(scope="session")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the dashboard on samples, as ``streamlit run app.py`` serves it."""
    folder = tmp_path_factory.mktemp("served") / "sample_traces"
    for name in SERVED:
        shutil.copytree(SAMPLES / name, folder / name)
    with served(ROOT / "app.py", folder) as server:
        yield server.address


@pytest.fixture(scope="session")
def visitor(browser: Browser) -> Iterator[BrowserContext]:
    """The browser whose tabs the tests use: see :func:`tests.ui.tabs.tab`.

    They share a process of Chromium, which compiles Streamlit's scripts only once: half of the time
    of a page.
    """
    context = browser.new_context()
    context.set_default_timeout(PATIENCE_MS)
    # A process ends with its last tab.
    tab = context.new_page()
    tab.route("**/*", lambda route: route.fulfill(body=""))
    tab.goto("http://127.0.0.1/")
    yield context
    context.close()


@pytest.fixture(scope="session")
def tab_of_dashboard(visitor: BrowserContext, dashboard: str) -> Iterator[Page]:
    """A tab of :func:`dashboard` whose document stays."""
    with standing_tab(visitor, dashboard) as page:
        yield page


@pytest.fixture
def dashboard_tab(tab_of_dashboard: Page) -> Iterator[Page]:
    """That tab, for a test that follows links."""
    with lent(tab_of_dashboard) as page:
        yield page


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A dashboard on experiments of known truth."""
    folder = tmp_path_factory.mktemp("looks")
    modes = ("eager", "graph", "partial")
    make_experiment(folder / "step", modes, memory_pass={"graph": MEMORY_PASS})
    for mode in modes[:2]:
        make_run(folder / "branches", mode, work=fork_join(), workload="branches")
    # What pages say must not depend on where this machine keeps files of tests.
    environment = {STARTED_IN_VARIABLE: str(folder)}
    with served(ROOT / "app.py", folder, environment=environment) as server:
        yield server.address


@pytest.fixture(scope="session")
def _tab_of_made(visitor: BrowserContext, made: str) -> Iterator[Page]:
    with standing_tab(visitor, made) as page:
        yield page


@pytest.fixture
def made_tab(_tab_of_made: Page) -> Iterator[Page]:
    """A tab of :func:`made` for a test that follows links."""
    with lent(_tab_of_made) as page:
        yield page


@pytest.fixture(scope="session")
def rare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A dashboard on rare experiments: a program with a graph for each batch size, and a graph of
    6,000 nodes, prepared by the first test that uses it.
    """
    folder = tmp_path_factory.mktemp("rare")
    make_server(folder / "service", sizes=(4, 8))
    make_run(folder / "chain", "graph", work=chain(6_000), workload="chain")
    shutil.copytree(folder / "chain", folder / "chain-again")
    with served(ROOT / "app.py", folder) as server:
        yield server.address


@pytest.fixture(scope="session")
def tab_of_rare(visitor: BrowserContext, rare: str) -> Iterator[Page]:
    with standing_tab(visitor, rare) as page:
        yield page


@pytest.fixture
def look_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], Path]]:
    """Make the pages look in a folder."""

    def look(folder: Path) -> Path:
        monkeypatch.setattr(sys, "argv", ["app.py", str(folder)])
        catalogue.get_roots.cache_clear()
        return folder

    yield look
    catalogue.get_roots.cache_clear()


@pytest.fixture
def roots(look_in: Callable[[Path], Path], tmp_path: Path) -> Path:
    """An empty folder that the pages look in."""
    return look_in(tmp_path)


@pytest.fixture
def open_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open all expanders, whose content is built only then."""
    monkeypatch.setattr(st, "expander", partial(st.expander, expanded=True))
