from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest
import streamlit as st
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from graphviz_dash.app.hosting import guard
from graphviz_dash.app.hosting.access import Access, build_access
from graphviz_dash.app.hosting.guard import Guard
from graphviz_dash.app.hosting.server import PAGES, list_middleware, list_routes
from graphviz_dash.server_settings import ServerSettings
from graphviz_dash.ui.state.presence import VISITOR_HEADER

OURS = "http://127.0.0.1:8501"
SOCKET = "ws://127.0.0.1:8501/ws"
DOCUMENT = {"accept": "text/html"}


@pytest.fixture
def app() -> Starlette:
    async def visitor(request: Request) -> Response:
        return JSONResponse(request.headers.getlist(VISITOR_HEADER))

    async def talk(websocket: WebSocket) -> None:
        await websocket.accept()
        await websocket.send_text(websocket.headers.get(VISITOR_HEADER, ""))
        await websocket.close()

    paths = [Route("/{path:path}", visitor, methods=["GET", "POST"]), WebSocketRoute("/ws", talk)]
    return Starlette(routes=[paths[1], paths[0]], middleware=[Middleware(Guard)])


def client_of(app: Starlette, monkeypatch: pytest.MonkeyPatch, access: Access) -> TestClient:
    monkeypatch.setattr(guard, "get_access", lambda: access)
    return TestClient(app, OURS, follow_redirects=False)


@pytest.fixture
def client(app: Starlette, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    return client_of(app, monkeypatch, build_access("127.0.0.1", ServerSettings()))


@pytest.fixture
def asking(app: Starlette, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """A client of a server that asks for the token ``secret``."""
    settings = ServerSettings(token="secret", requires_token=True)
    return client_of(app, monkeypatch, build_access("127.0.0.1", settings))


def test_another_host_is_refused_with_the_reason(client: TestClient) -> None:
    for path in ("/", "/api/dag/view", "/_stcore/health"):
        answer = client.get(path, headers={"host": "evil.example:8501"})
        assert answer.status_code == 403
        assert "DNS rebinding" in answer.text
        assert "--allow-host evil.example" in answer.text
        assert answer.headers["content-type"].startswith("text/plain")


def test_a_refused_host_is_shown_as_text(client: TestClient) -> None:
    answer = client.get("/", headers={"host": "<script>alert(1)</script>"})
    assert answer.status_code == 403
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "script"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
    ],
)
def test_pages_of_other_sites_get_nothing(client: TestClient, headers: dict[str, str]) -> None:
    assert client.get("/api/dag/view", headers=headers).status_code == 403
    assert client.post("/_stcore/upload_file/x", headers=headers).status_code == 403


def test_links_of_other_sites_and_our_own_pages_get_answers(client: TestClient) -> None:
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert client.get("/", headers=link | {"sec-fetch-dest": "document"}).status_code == 200
    assert client.get("/", headers={"origin": OURS, "sec-fetch-site": "same-origin"}).is_success


@pytest.mark.parametrize(
    "headers", [{"host": "evil.example", "origin": "http://evil.example"}, {"origin": "null"}]
)
def test_websockets_are_held_to_the_same(client: TestClient, headers: dict[str, str]) -> None:
    with pytest.raises(WebSocketDisconnect), client.websocket_connect(SOCKET, headers=headers):
        pass
    with client.websocket_connect(SOCKET, headers={"origin": OURS}) as websocket:
        assert re.fullmatch(r"[0-9a-f]{32}", websocket.receive_text())


def test_a_token_is_asked_for_everywhere(asking: TestClient) -> None:
    for path in ("/", "/api/dag/view", "/_stcore/health", "/?token=", "/?token=wrong"):
        assert asking.get(path).status_code == 403
    assert "follow this link" in asking.get("/", headers=DOCUMENT).text
    with pytest.raises(WebSocketDisconnect), asking.websocket_connect(SOCKET):
        pass


def test_the_token_of_the_address_becomes_a_cookie_and_leaves_it(asking: TestClient) -> None:
    answer = asking.get("/graph?experiment=a%20b&token=secret&run=x", headers=DOCUMENT)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/graph?experiment=a+b&run=x"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert asking.get("/graph").status_code == 200
    with asking.websocket_connect(SOCKET) as websocket:
        websocket.receive_text()


def test_a_token_leads_to_no_other_host(asking: TestClient) -> None:
    answer = asking.get(f"{OURS}//evil.example/?token=secret")
    assert answer.headers["location"] == "/evil.example/"


def test_a_visitor_is_known_by_a_cookie_and_by_nothing_else(client: TestClient) -> None:
    first = client.get("/", headers=DOCUMENT)
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    (visitor,) = first.json()
    assert re.fullmatch(r"[0-9a-f]{32}", visitor)
    assert client.get("/api").json() == [visitor]
    assert "set-cookie" not in client.get("/", headers=DOCUMENT).headers
    assert client.get("/api", headers={VISITOR_HEADER: "forged"}).json() == [visitor]
    with client.websocket_connect(SOCKET) as websocket:
        assert websocket.receive_text() == visitor
    client.cookies.clear()
    assert client.get("/api", headers={VISITOR_HEADER: "forged"}).json() == []


def test_an_invented_visitor_is_none(client: TestClient) -> None:
    client.get("/", headers={"accept": "text/html"})
    (name,) = [cookie.name for cookie in client.cookies.jar if "visitor" in cookie.name]
    (value,) = [cookie.value for cookie in client.cookies.jar if cookie.name == name]
    visitor, _, signature = str(value).partition(".")
    forged = ("me", "me.", f"me.{signature}", visitor, f"{visitor}.{signature[:-1]}", "\xe9.\xe9")
    client.cookies.clear()
    for cookie in forged:
        headers = {"cookie": f"{name}={cookie}".encode("latin-1")}
        assert client.get("/api", headers=headers).json() == []
    assert client.get("/api", headers={"cookie": f"{name}={value}"}).json() == [visitor]


def test_a_link_of_another_site_makes_no_new_visitor(client: TestClient) -> None:
    # It comes without the cookie, which the browser may well have.
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", **DOCUMENT}
    assert "set-cookie" not in client.get("/", headers=link).headers
    asked = {"sec-fetch-site": "same-origin"}
    assert "set-cookie" in client.get("/_stcore/host-config", headers=asked).headers


def paths_of(listed: list[BaseRoute], prefix: str = "") -> Iterator[str]:
    """An address for each route: parameters are filled in."""
    for route in listed:
        path = getattr(route, "path", "")
        if isinstance(route, Mount):
            yield f"{prefix}{path}/"
            yield f"{prefix}{path}/nothing"
            yield from paths_of(list(route.routes or ()), prefix + path)
        else:
            yield prefix + re.sub(r"\{[^}]*\}", "x", path)


def all_paths() -> list[str]:
    app = st.App(PAGES, routes=list_routes(), middleware=list_middleware())
    listed = {*paths_of(list(app._build_starlette_app().routes)), "/static/js/x.js", "/graph"}
    from graphviz_dash.app.hosting.component_routes import ROUTER

    return sorted(listed | {*paths_of(list(ROUTER.routes))})


@pytest.fixture
def address(made: str) -> tuple[str, int]:
    host, port = made.removeprefix("http://").split(":")
    return host, int(port)


def asked(
    address: tuple[str, int], path: str, host: str, method: str = "GET", origin: str | None = None
) -> tuple[int, dict[str, str]]:
    connection = HTTPConnection(*address, timeout=30)
    try:
        connection.putrequest(method, path, skip_host=True)
        connection.putheader("Host", host)
        connection.putheader("Accept", "text/html")
        if origin is not None:
            connection.putheader("Origin", origin)
        connection.endheaders()
        answer = connection.getresponse()
        answer.read()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}
    finally:
        connection.close()


def test_every_route_refuses_other_hosts_and_origins_and_has_the_headers(
    address: tuple[str, int],
) -> None:
    paths = all_paths()
    assert len(paths) > 30
    assert {"/_stcore/health", "/_stcore/stream", "/api/dag/view", "/assets/"} <= {*paths}
    own = f"127.0.0.1:{address[1]}"
    for path in paths:
        for method in ("GET", "POST"):
            for host, origin in ((own, None), ("evil.example", None), (own, "http://evil.example")):
                status, headers = asked(address, path, host, method, origin)
                assert status != 500, path
                assert (status == 403) or (host, origin) == (own, None), path
                assert headers["x-content-type-options"] == "nosniff", path
                assert headers["referrer-policy"] == "same-origin", path
                assert headers["x-frame-options"] == "DENY", path
                policy = headers["content-security-policy"]
                assert "frame-ancestors 'none'" in policy, path
                assert "object-src 'none'" in policy, path


def test_no_page_of_another_site_may_talk_to_a_page(address: tuple[str, int]) -> None:
    with socket.create_connection(address, timeout=30) as connection:
        host = f"127.0.0.1:{address[1]}"
        request = f"GET /_stcore/host-config HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        connection.sendall(request.encode())
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert b'"allowedOrigins":[]' in answer


@pytest.mark.parametrize("value", ["\\" * 60_000, "\\123" * 15_000, "\\;b=" * 15_000])
def test_escaped_cookies_cost_linear_time_and_others_remain(client: TestClient, value: str) -> None:
    visitor = client.get("/", headers=DOCUMENT).json()
    own = client.get("/", headers=DOCUMENT).request.headers["cookie"]
    start_s = time.process_time()
    answer = client.get("/", headers={**DOCUMENT, "cookie": f'a="{value}"; {own}'})
    assert time.process_time() - start_s < 1
    assert answer.json() == visitor


def test_a_token_of_odd_characters_is_read_from_its_cookie(
    app: Starlette, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ServerSettings(token='a b;"c\\', requires_token=True)
    client = client_of(app, monkeypatch, build_access("127.0.0.1", settings))
    assert client.get("/", params={"token": settings.token or ""}).status_code == 303
    assert client.get("/").status_code == 200
