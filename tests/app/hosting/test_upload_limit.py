"""What a visitor may have in the server's memory."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.testclient import TestClient

from graphviz_dash.app.hosting import upload_limit
from graphviz_dash.app.hosting.upload_limit import UploadLimit
from graphviz_dash.ui.state import held_uploads
from graphviz_dash.ui.state.held_uploads import HeldUploads
from graphviz_dash.ui.state.presence import VISITOR_HEADER

FILE = "/_stcore/upload_file/session/"
ME, OTHER = {VISITOR_HEADER: "me"}, {VISITOR_HEADER: "other"}


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> HeldUploads:
    """Ten bytes for a visitor, fifteen for all."""
    held = HeldUploads()
    monkeypatch.setattr(upload_limit, "HELD_UPLOADS", held)
    monkeypatch.setattr(held_uploads, "MAX_VISITOR_BYTES", 10)
    monkeypatch.setattr(held_uploads, "MAX_ALL_BYTES", 15)
    return held


@pytest.fixture
def client(held: HeldUploads) -> TestClient:
    async def answer(request: Request) -> Response:
        return Response(status_code=400 if b"bad" in await request.body() else 204)

    route = Route("/{path:path}", answer, methods=["PUT", "DELETE", "POST"])
    return TestClient(Starlette(routes=[route], middleware=[Middleware(UploadLimit)]))


def test_a_visitor_may_hold_so_much_until_he_removes_it(client: TestClient) -> None:
    assert client.put(f"{FILE}1", content=b"x" * 6, headers=ME).status_code == 204
    refused = client.put(f"{FILE}2", content=b"x" * 6, headers=ME)
    assert refused.status_code == 413
    assert "Remove files first" in refused.text
    assert client.put(f"{FILE}3", content=b"x" * 6, headers=OTHER).status_code == 204
    assert client.delete(f"{FILE}1", headers=ME).status_code == 204
    assert client.put(f"{FILE}2", content=b"x" * 6, headers=ME).status_code == 204


def test_all_together_may_hold_so_much(client: TestClient, held: HeldUploads) -> None:
    assert client.put(f"{FILE}1", content=b"x" * 9, headers=ME).status_code == 204
    assert client.put(f"{FILE}2", content=b"x" * 9, headers=OTHER).status_code == 413
    held.release("me")
    assert client.put(f"{FILE}2", content=b"x" * 9, headers=OTHER).status_code == 204


def test_what_is_refused_or_of_unknown_length_is_not_held(client: TestClient) -> None:
    for number in range(3):
        body = b"x" * 6 + b"bad"
        assert client.put(f"{FILE}{number}", content=body, headers=ME).status_code == 400
    pieces = (b"x" for _ in range(3))
    assert client.put(f"{FILE}4", content=pieces, headers=ME).status_code == 413
    assert client.put(f"{FILE}5", content=b"x" * 9, headers=ME).status_code == 204


def test_other_requests_pass(client: TestClient) -> None:
    assert client.post("/api/x", content=b"x" * 99, headers=ME).status_code == 204
