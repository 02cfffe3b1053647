from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send

from graphviz_dash.app.hosting import upload_limit
from graphviz_dash.app.hosting.upload_limit import UploadLimit
from graphviz_dash.ui.state import held_uploads
from graphviz_dash.ui.state.held_uploads import HeldUploads
from graphviz_dash.ui.state.presence import VISITOR_HEADER

FILE = "/_stcore/upload_file/session/"
ME, OTHER = {VISITOR_HEADER: "me"}, {VISITOR_HEADER: "other"}


class Storage(set[str]):
    """The paths of the files that the application behind the limit holds."""


@pytest.fixture
def storage() -> Storage:
    return Storage()


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch, storage: Storage) -> HeldUploads:
    """Ten bytes for a visitor, fifteen for all."""
    held = HeldUploads(storage.__contains__)
    monkeypatch.setattr(upload_limit, "HELD_UPLOADS", held)
    monkeypatch.setattr(held_uploads, "MAX_VISITOR_BYTES", 10)
    monkeypatch.setattr(held_uploads, "MAX_ALL_BYTES", 15)
    return held


@pytest.fixture
def client(held: HeldUploads, storage: Storage) -> TestClient:
    async def answer(request: Request) -> Response:
        if request.method == "DELETE":
            if "x-xsrftoken" not in request.headers:
                return Response(status_code=403)
            storage.discard(request.url.path)
        elif b"bad" in await request.body():
            return Response(status_code=400)
        else:
            storage.add(request.url.path)
        return Response(status_code=204)

    route = Route("/{path:path}", answer, methods=["PUT", "DELETE", "POST"])
    return TestClient(Starlette(routes=[route], middleware=[Middleware(UploadLimit)]))


def test_a_visitor_may_hold_so_much_until_he_removes_it(client: TestClient) -> None:
    assert client.put(f"{FILE}1", content=b"x" * 6, headers=ME).status_code == 204
    refused = client.put(f"{FILE}2", content=b"x" * 6, headers=ME)
    assert refused.status_code == 413
    assert "Remove files first" in refused.text
    assert client.put(f"{FILE}3", content=b"x" * 6, headers=OTHER).status_code == 204
    # A request that is refused removes nothing.
    assert client.delete(f"{FILE}1", headers=ME).status_code == 403
    assert client.put(f"{FILE}2", content=b"x" * 6, headers=ME).status_code == 413
    assert client.delete(f"{FILE}1", headers={**ME, "X-Xsrftoken": "x"}).status_code == 204
    assert client.put(f"{FILE}2", content=b"x" * 6, headers=ME).status_code == 204


def test_all_together_may_hold_so_much(client: TestClient, storage: Storage) -> None:
    assert client.put(f"{FILE}1", content=b"x" * 9, headers=ME).status_code == 204
    assert client.put(f"{FILE}2", content=b"x" * 9, headers=OTHER).status_code == 413
    storage.clear()  # the session has ended
    assert client.put(f"{FILE}2", content=b"x" * 9, headers=OTHER).status_code == 204


def test_refused_uploads_use_no_quota(client: TestClient) -> None:
    for number in range(3):
        body = b"x" * 6 + b"bad"
        assert client.put(f"{FILE}{number}", content=body, headers=ME).status_code == 400
    assert client.put(f"{FILE}5", content=b"x" * 9, headers=ME).status_code == 204


def test_a_replaced_file_counts_once(client: TestClient) -> None:
    for _ in range(2):
        assert client.put(f"{FILE}1", content=b"x" * 5, headers=ME).status_code == 204
    assert client.put(f"{FILE}2", content=b"x" * 5, headers=ME).status_code == 204


def test_received_bytes_count_whatever_length_is_claimed(client: TestClient) -> None:
    forged = {**ME, "Content-Length": "1"}
    many, few = [b"x" * 6, b"x" * 6], [b"x" * 6]
    for headers in (ME, forged):
        pieces = iter(many)
        assert client.put(f"{FILE}1", content=pieces, headers=headers).status_code == 413
    assert client.put(f"{FILE}1", content=iter(few), headers=ME).status_code == 204
    assert client.put(f"{FILE}2", content=iter(few), headers=forged).status_code == 413


async def _cancel(held_app: UploadLimit, length: int) -> None:
    """Send two bytes of a claimed length, and close the connection."""
    messages = iter(
        [
            {"type": "http.request", "body": b"xx", "more_body": True},
            {"type": "http.disconnect"},
        ]
    )

    async def receive() -> Message:
        return next(messages)

    async def send(_: Message) -> None:
        raise AssertionError("nobody listens")

    headers = [(VISITOR_HEADER.encode(), b"me"), (b"content-length", str(length).encode())]
    scope = {"type": "http", "method": "PUT", "path": f"{FILE}1", "headers": headers}
    with pytest.raises(ClientDisconnect):
        await held_app(scope, receive, send)


def test_a_cancelled_upload_is_not_held(client: TestClient, held: HeldUploads) -> None:
    async def read_all(scope: Scope, receive: Receive, send: Send) -> None:
        await Request(scope, receive, send).body()

    for _ in range(20):
        # Another thread: Playwright's event loop may run in this one.
        with ThreadPoolExecutor(1) as pool:
            pool.submit(asyncio.run, _cancel(UploadLimit(read_all), 9)).result()
    assert client.put(f"{FILE}2", content=b"x" * 9, headers=ME).status_code == 204


def test_an_upload_without_a_cookie_of_ours_is_refused(client: TestClient) -> None:
    refused = client.put(f"{FILE}1", content=b"x")
    assert refused.status_code == 403
    assert "Reload the page" in refused.text


def test_other_requests_pass(client: TestClient) -> None:
    assert client.post("/api/x", content=b"x" * 99, headers=ME).status_code == 204
