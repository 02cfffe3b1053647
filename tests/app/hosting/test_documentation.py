from __future__ import annotations

from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from graphviz_dash.app.hosting import documentation, guard
from graphviz_dash.app.hosting.access import build_access
from graphviz_dash.app.hosting.server import list_middleware
from graphviz_dash.documentation import SOURCES, build_anchor, build_place, build_url
from graphviz_dash.server_settings import ServerSettings

OURS = "http://127.0.0.1:8501"
INLINE = "<!doctype html><script>let a = 1</script><h1 id=metrics>Metrics</h1>"


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site of four files, next to a file that is not part of it."""
    site = tmp_path / "site"
    (site / "reference").mkdir(parents=True)
    (site / "assets").mkdir()
    (site / "index.html").write_text(INLINE)
    (site / "404.html").write_text("<h1>Not found</h1>")
    (site / "reference" / "metrics.html").write_text(INLINE)
    (site / "assets" / "main.0123abcd.min.css").write_text("a{}")
    (site / "assets" / "page.webp").write_bytes(b"RIFF")
    (tmp_path / "secret.txt").write_text("secret")
    (site / "link.html").symlink_to(tmp_path / "secret.txt")
    monkeypatch.setattr(documentation, "SITE_FOLDER", site)
    return site


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> TestClient:
    monkeypatch.setattr(guard, "get_access", lambda: build_access("127.0.0.1", ServerSettings()))
    app = Starlette(routes=documentation.list_routes(), middleware=list_middleware())
    return TestClient(app, OURS, headers={"accept": "text/html"})


def test_a_page_is_served_with_a_policy_of_its_own_scripts(built: Path, client: TestClient) -> None:
    answer = client.get("/docs/reference/metrics.html")
    assert (answer.status_code, answer.text) == (200, INLINE)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert policy.count("'sha256-") == 1
    assert answer.headers["x-frame-options"] == "DENY"


def test_the_folder_leads_to_the_first_page(built: Path, client: TestClient) -> None:
    assert client.get("/docs").url.path == "/docs/index.html"
    assert client.get("/docs/").text == INLINE


def test_hashed_files_are_kept_by_the_browser(built: Path, client: TestClient) -> None:
    answer = client.get("/docs/assets/main.0123abcd.min.css")
    assert "immutable" in answer.headers["cache-control"]
    assert client.get("/docs/index.html").headers["cache-control"] == "no-cache"


def test_a_picture_has_its_type(built: Path, client: TestClient) -> None:
    """Browsers do not guess it: the guard forbids that."""
    assert client.get("/docs/assets/page.webp").headers["content-type"] == "image/webp"


@pytest.mark.parametrize(
    "path", ["../secret.txt", "%2e%2e/secret.txt", "..%5csecret.txt", "link.html", "nowhere.html"]
)
def test_nothing_else_is_served(built: Path, client: TestClient, path: str) -> None:
    answer = client.get(f"/docs/{path}")
    assert answer.status_code == 404
    assert "secret" not in answer.text


def test_another_host_is_refused(built: Path, client: TestClient) -> None:
    assert client.get("/docs/index.html", headers={"host": "evil.example"}).status_code == 403


class TestWithoutASite:
    @pytest.fixture(autouse=True)
    def _unbuilt(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(documentation, "SITE_FOLDER", tmp_path / "nowhere")

    def test_a_page_is_its_markdown_and_says_how_to_build_the_site(
        self, client: TestClient
    ) -> None:
        answer = client.get("/docs/reference/metrics.html")
        assert answer.status_code == 200
        assert "make site" in answer.text
        assert '<h3 id="step-time">' in answer.text
        assert "<li>" in answer.text

    def test_links_lead_to_pages(self) -> None:
        text = documentation.render_markdown("[a](b.md#c) [d](https://e.example/f.md)")
        assert 'href="b.html#c"' in text
        assert 'href="https://e.example/f.md"' in text

    def test_markup_in_markdown_is_text(self) -> None:
        assert "<script>" not in documentation.render_markdown("a <script>alert(1)</script>")

    def test_an_unknown_page_says_how_to_build_the_site(self, client: TestClient) -> None:
        answer = client.get("/docs/nowhere.html")
        assert answer.status_code == 404
        assert "make site" in answer.text

    @pytest.mark.parametrize("path", ["..%2fpyproject.toml", "../README.html", "%2fetc%2fpasswd"])
    def test_nothing_outside_docs_is_served(self, client: TestClient, path: str) -> None:
        assert client.get(f"/docs/{path}").status_code == 404

    def test_an_installation_says_what_is_missing(
        self, client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(documentation, "SOURCES", tmp_path / "docs")
        answer = client.get("/docs/index.html")
        assert answer.status_code == 404
        assert "has no documentation" in answer.text


def test_places_and_addresses() -> None:
    assert build_anchor("Step time (`ns`), p25 – p75") == "step-time-ns-p25--p75"
    assert build_place("reference/metrics.md", "Step time") == "reference/metrics.md#step-time"
    assert build_url("reference/metrics.md#step-time") == "/docs/reference/metrics.html#step-time"
    assert SOURCES.is_dir()
