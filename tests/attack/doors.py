"""Attacks from other sites, other machines and other users of the machine."""

from __future__ import annotations

import random
import socket
import threading
from typing import Final

from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.attack.attacks import must
from tests.attack.server import Dashboard, dashboard
from tests.attack.visitor import Answer, Visitor, request

_EVIL: Final = "http://evil.example"
_ROUTES: Final = (
    *("/", "/compare?experiment=decode", "/api/dag/view", "/api/timeline/view"),
    *("/api/perfetto/trace", "/assets/style.css", "/static/js/x.js", "/media/x"),
    *("/favicon.png", "/_stcore/health", "/_stcore/host-config", "/_stcore/upload_file/a/b"),
    *("/component/x", "/overview", "/nothing"),
)
_API: Final = (
    *("dag/view", "dag/search", "dag/edges", "dag/repeat", "dag/drawing", "dag/progress"),
    *("timeline/view", "timeline/slice", "timeline/measure", "perfetto/trace", "dag/complete"),
)
_SECRET: Final = b"root:"


def foreign_host(served: Dashboard) -> str:
    """DNS rebinding: the browser takes the server for a site of the attacker."""
    port = served.address.rpartition(":")[2]
    host = {"Host": f"evil.example:{port}", "Origin": f"{_EVIL}:{port}"}
    for route in _ROUTES:
        answer = request(served.address, route, headers=host)
        must(answer.status == 403, f"{route} answered {answer.status}")
    must(_socket_status(served, host) == 403, "the socket was opened")
    return f"held: 403 on {len(_ROUTES)} routes and the socket"


def _socket_status(served: Dashboard, headers: dict[str, str]) -> int:
    origin = headers.get("Origin", served.address)
    address = f"ws://{headers.get('Host', served.address.partition('//')[2])}/_stcore/stream"
    host, _, port = served.address.partition("//")[2].rpartition(":")
    plain = socket.create_connection((host, int(port)), timeout=30)
    try:
        with connect(address, sock=plain, origin=origin, subprotocols=["streamlit"]):  # type: ignore[arg-type, list-item]
            return 101
    except InvalidStatus as refused:
        return refused.response.status_code


def foreign_origin(served: Dashboard) -> str:
    """Request, upload and open the socket from another site; responses trigger no request to other
    machines.
    """
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        threading.Thread(target=_note, args=(proxy, asked), daemon=True).start()
        address = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        environment = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy"), address)
        with dashboard(environment=environment) as own:
            for origin in (_EVIL, "null", "https://share.streamlit.app"):
                for route in _ROUTES:
                    answer = request(own.address, route, headers={"Origin": origin})
                    must(answer.status == 403, f"{route} answered {answer.status} to {origin}")
                    must("access-control-allow-origin" not in answer.headers, "CORS is open")
                must(_socket_status(own, {"Origin": origin}) == 403, "the socket was opened")
    must(not asked, f"a refused Origin made a request outside: {asked[:1]!r}")
    return "held: 403 everywhere, no request to others"


def _note(proxy: socket.socket, asked: list[bytes]) -> None:
    while True:
        try:
            connection, _ = proxy.accept()
        except OSError:
            return
        with connection:
            asked.append(connection.recv(200))


def framing(served: Dashboard) -> str:
    """Another site shows the dashboard in a frame, and talks to it."""
    for route in _ROUTES:
        for headers in ({"accept": "text/html"}, {"accept": "text/html", "Host": "evil.example"}):
            _check_headers(route, request(served.address, route, headers=headers))
    answer = request(served.address, "/_stcore/host-config")
    must(b'"allowedOrigins":[]' in answer.body, "other sites may talk to a page")
    framed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    framed["Sec-Fetch-Dest"] = "iframe"
    must(request(served.address, "/", headers=framed).status == 403, "a frame was answered")
    return f"held: frame-ancestors 'none', CSP, nosniff on {len(_ROUTES)} routes; no origin allowed"


def _check_headers(route: str, answer: Answer) -> None:
    policy = answer.headers.get("content-security-policy", "")
    must("frame-ancestors 'none'" in policy, f"{route} may be framed")
    must(answer.headers.get("x-content-type-options") == "nosniff", f"{route} without nosniff")
    must("cross-origin-opener-policy" in answer.headers, f"{route} keeps its opener")
    must(answer.headers.get("referrer-policy") == "same-origin", f"{route} tells the referrer")


def local_user(_: Dashboard) -> str:
    """Another user of the machine, who reaches the port."""
    with dashboard(["decode"], ["--token"]) as own:
        for route in _ROUTES:
            for path in (route, f"{route}{'&' if '?' in route else '?'}token=wrong"):
                must(request(own.address, path).status == 403, f"{path} was answered")
        must(_socket_status(own, {}) == 403, "the socket was opened")
        visitor = Visitor(own.address)
        query = own.link.partition("/?")[2]
        answer = visitor.get(f"/?{query}", {"accept": "text/html"})
        must(answer.status == 303, "the printed link does not lead in")
        with visitor.open():
            must("Experiments" in visitor.text, "the page is not there")
    return "held with --token, by default off loopback: 403; the printed link leads in"


def paths(served: Dashboard) -> str:
    """Paths that lead out of the folders that are served."""
    climbs = [
        f"{base}{step * 12}etc/passwd"
        for base in (
            "/assets/",
            "/static/",
            "/perfetto/",
            "/media/",
            "/component/x/",
            "/app/static/",
        )
        for step in ("../", "..%2f", "%2e%2e/", "..\\", "..%5c", "....//", "%252e%252e%252f")
    ]
    keys = [
        f"/api/{route}?experiment={key}"
        for route in _API
        for key in ("../../etc/passwd", "%2e%2e%2fetc", "0" * 12, "0" * 32, "%00", "~")
    ]
    for path in (*climbs, *keys, "/compare?experiment=../../../../etc"):
        answer = request(served.address, path)
        must(_SECRET not in answer.body, f"{path} gave a file")
        must(answer.status < 500, f"{path} answered {answer.status}")
    return f"held: {len(climbs) + len(keys) + 1} paths, no file, no 500"


def random_requests(served: Dashboard, count: int = 500) -> str:
    """Random parameters to all routes of the components."""
    chance = random.Random(0)
    names = (
        "experiment",
        "run",
        "graph",
        "t0",
        "t1",
        "px",
        "step",
        "slice",
        "expanded",
        "q",
        "format",
    )
    values = ("", "0", "-1", "9" * 30, "1e309", "nan", "%00", "%ff", "a" * 4_000, "../", "<script>")
    for _ in range(count):
        query = "&".join(
            f"{chance.choice(names)}={chance.choice(values)}" for _ in range(chance.randrange(9))
        )
        path = f"/api/{chance.choice(_API)}?{query}"
        answer = request(served.address, path, method=chance.choice(("GET", "POST", "PUT")))
        must(answer.status < 500, f"{path} answered {answer.status}")
    return f"held: {count} requests, no 500"


def quick_random_requests(served: Dashboard) -> str:
    return random_requests(served, 60)


def without_token_of_form(served: Dashboard) -> str:
    """An upload that a page of another site makes the browser send: without the XSRF token."""
    with Visitor(served.address).open() as visitor:
        path = f"/_stcore/upload_file/{visitor.session}/00000000"
        visitor.cookies["_streamlit_xsrf"] = ""
        status = visitor.put(path, "x.dot", b"digraph {}").status
    must(status == 403, f"it was answered {status}")
    return "held: 403"
