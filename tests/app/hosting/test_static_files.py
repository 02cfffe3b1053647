from __future__ import annotations

from pathlib import Path

import pytest
import streamlit
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient
from streamlit.web.server.starlette.starlette_static_routes import create_streamlit_static_handler

from graphviz_dash.app.hosting import static_files
from graphviz_dash.app.hosting.static_files import StaticFilesMiddleware

STATIC = Path(streamlit.__file__).parent / "static"
FILES = sorted((STATIC / "static").rglob("*.*"))


async def _passed(_: Request) -> Response:
    return PlainTextResponse("passed")


@pytest.fixture
def client() -> TestClient:
    return TestClient(StaticFilesMiddleware(Starlette(routes=[Route("/{path:path}", _passed)])))


@pytest.mark.parametrize("suffix", [".js", ".css", ".woff2"])
def test_a_file_is_sent_as_streamlit_sends_it(client: TestClient, suffix: str) -> None:
    path = next(path for path in FILES if path.suffix == suffix)
    address = f"/{path.relative_to(STATIC).as_posix()}"
    found = client.get(address)
    theirs = TestClient(create_streamlit_static_handler(str(STATIC), None)).get(address)
    assert found.content == theirs.content == path.read_bytes()
    for name in ("content-type", "content-length", "cache-control"):
        assert found.headers[name].split(";")[0] == theirs.headers[name].split(";")[0]


def test_a_sent_file_is_not_cached(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 10 MB that the server would have for good, and that no browser asks for twice.
    file = tmp_path / "a.js"
    monkeypatch.setattr(static_files, "_list_files", lambda: {"/static/a.js": file})
    for content in ("first", "second"):
        file.write_text(content)
        assert client.get("/static/a.js").text == content


@pytest.mark.parametrize(
    "address",
    [
        "/",
        "/static",
        "/static/js",
        "/static/js/nothing.js",
        "/static/../index.html",
        "/static/%2e%2e/index.html",
        "/static//etc/passwd",
        "/index.html",
    ],
)
def test_anything_else_passes(client: TestClient, address: str) -> None:
    assert client.get(address).text == "passed"


def test_a_part_of_a_file_and_a_posted_one_pass(client: TestClient) -> None:
    address = f"/{FILES[0].relative_to(STATIC).as_posix()}"
    assert client.get(address, headers={"range": "bytes=0-3"}).text == "passed"
    assert client.post(address).status_code == 405
