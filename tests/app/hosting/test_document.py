from __future__ import annotations

from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from graphviz_dash.app.hosting.document import (
    IDLE_ELEMENTS,
    IMPORT,
    OVERVIEW_ELEMENTS,
    PAGE_ELEMENTS,
    SCRIPTS,
    STYLE,
    DocumentMiddleware,
    build_preload_links,
    complete_document,
    list_element_scripts,
    list_required_scripts,
)

DOCUMENT = "<html><head><title>x</title></head><body><div id=root></div></body></html>"


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    stored = tmp_path / "index.html"
    stored.write_text(DOCUMENT)

    async def page(_: Request) -> Response:
        return FileResponse(stored)

    async def compressed(request: Request) -> Response:
        asked = request.headers.get("accept-encoding", "none")
        return HTMLResponse(DOCUMENT.replace("x", asked))

    async def data(_: Request) -> Response:
        return JSONResponse({"body": "<body></body>"})

    routes = [Route("/page", page), Route("/compressed", compressed), Route("/data", data)]
    return TestClient(DocumentMiddleware(Starlette(routes=routes)))


def test_a_document_has_the_style_sheet_and_names_its_first_requests(client: TestClient) -> None:
    answer = client.get("/page", headers={"accept": "text/html"})
    assert STYLE.read_text() in answer.text
    head, _, body = answer.text.partition("</head>")
    assert build_preload_links(PAGE_ELEMENTS) in head
    assert "<style>" in body
    assert body.endswith("<div id=root></div></body></html>")
    assert int(answer.headers["content-length"]) == len(answer.content)
    # They would let a browser keep a document with the style sheet of an earlier version.
    assert "etag" not in answer.headers
    assert "last-modified" not in answer.headers


def test_a_document_is_asked_for_uncompressed(client: TestClient) -> None:
    answer = client.get("/compressed", headers={"accept": "text/html", "accept-encoding": "gzip"})
    assert "<title>none</title>" in answer.text


def test_responses_other_than_documents_pass_unchanged(client: TestClient) -> None:
    assert client.get("/data", headers={"accept": "text/html"}).json() == {"body": "<body></body>"}
    assert client.get("/page", headers={"accept": "*/*"}).text == DOCUMENT
    assert client.get("/nothing", headers={"accept": "text/html"}).status_code == 404


def test_needed_scripts_are_the_parts_and_all_that_they_import(tmp_path: Path) -> None:
    (tmp_path / "Html.a1.js").write_text('import{t as e}from"./purify.b2.js";import"./src.c3.js"')
    (tmp_path / "purify.b2.js").write_text('import{n}from"./Html.a1.js";import"./gone.js"')
    (tmp_path / "src.c3.js").write_text("export{}")
    (tmp_path / "Other.d4.js").write_text("")
    assert list_required_scripts(tmp_path, ["Html.a1.js"]) == [
        "Html.a1.js",
        "purify.b2.js",
        "src.c3.js",
    ]


def test_streamlits_own_document_is_completed() -> None:
    import streamlit

    stored = (Path(streamlit.__file__).parent / "static" / "index.html").read_bytes()
    document = complete_document(stored, "graph").decode()
    assert "SourceSans" in stored.decode()
    assert "SourceSans" not in document
    assert "/static/js/Html." in document
    assert "/static/js/ButtonGroup." in document
    assert document.count("<style>") == 1
    assert 'import "./static/js/' in document
    assert "/static/js/PlotlyChart." not in document
    assert "/static/js/PlotlyChart." in complete_document(stored, "graphs").decode()
    start = complete_document(stored, "").decode()
    head, _, body = start.partition("</head>")
    assert "/static/js/Html." in head
    assert "/static/js/DataFrame." not in head
    assert "/static/js/DataFrame." in body


@pytest.mark.parametrize("elements", [OVERVIEW_ELEMENTS, PAGE_ELEMENTS, IDLE_ELEMENTS])
def test_each_part_of_the_front_end_is_found(elements: tuple[str, ...]) -> None:
    assert [name.split(".")[0] for name in list_element_scripts(elements)] == list(elements)


def test_imports_stand_at_the_beginning_of_streamlits_scripts() -> None:
    for name in list_required_scripts(
        SCRIPTS, list_element_scripts((*PAGE_ELEMENTS, *IDLE_ELEMENTS))
    ):
        whole = (SCRIPTS / name).read_text(encoding="utf-8")
        assert set(IMPORT.findall(whole)) <= set(list_required_scripts(SCRIPTS, [name])), name
