from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from graphviz_dash.app.hosting.document import DocumentMiddleware
from graphviz_dash.app.hosting.server import list_middleware
from graphviz_dash.app.hosting.static_files import StaticFilesMiddleware
from graphviz_dash.app.hosting.switch import PLAIN_VARIABLE, is_plain
from graphviz_dash.ui.page.navigation import NAMES, get_title
from graphviz_dash.ui.page.registry import PAGES
from tests.serving import ROOT, served
from tests.ui.standing import step
from tests.ui.tabs import tab


@pytest.fixture(scope="module")
def plain() -> Iterator[str]:
    """The address of the dashboard with the switch off."""
    environment = {PLAIN_VARIABLE: "1"}
    with served(ROOT / "app.py", "sample_traces/fork-join", environment=environment) as server:
        yield server.address


@pytest.mark.parametrize(
    ("value", "plain"), [("", False), ("0", False), ("1", True), ("yes", True)]
)
def test_the_variable_switches(monkeypatch: pytest.MonkeyPatch, value: str, plain: bool) -> None:
    monkeypatch.setenv(PLAIN_VARIABLE, value)
    classes = {entry.cls for entry in list_middleware()}
    assert is_plain() is plain
    assert (DocumentMiddleware in classes) is not plain
    assert (StaticFilesMiddleware in classes) is not plain


@pytest.mark.ui
def test_streamlits_document_is_unchanged(plain: str) -> None:
    request = urllib.request.Request(plain, headers={"Accept": "text/html"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        document = answer.read().decode()
    assert "SourceSans" in document
    assert "popstate" not in document


@pytest.fixture(scope="module")
def document(visitor: BrowserContext, plain: str) -> Iterator[Page]:
    """A loaded document that Streamlit's front end takes from page to page, as Back and Forward
    do."""
    with tab(visitor) as page:
        page.goto(f"{plain}/export?experiment=fork-join")
        yield page


@pytest.mark.ui
def test_a_page_is_loaded_by_its_address(document: Page) -> None:
    # Nothing was gone to yet but what the document was loaded with.
    assert urlsplit(document.url).path == "/export"
    assert_shown(document, "export")


@pytest.mark.ui
@pytest.mark.parametrize("name", NAMES)
def test_every_page_is_shown(document: Page, name: str) -> None:
    step(document, f"{'' if name == 'overview' else name}?experiment=fork-join")
    assert_shown(document, name)


def assert_shown(page: Page, name: str) -> None:
    current = page.locator(".pages [aria-current]")
    expect(current).to_have_text(get_title(PAGES[name].tab_of or name))
    page.locator('[data-test-script-state="notRunning"]').wait_for()
    assert page.locator('[data-testid="stException"]').count() == 0
    # The style sheet is there: the bar is laid out by it. The bar may be replaced meanwhile, and a
    # node outside the document has no style.
    expect(page.locator(".brand")).to_have_css("display", "flex")
