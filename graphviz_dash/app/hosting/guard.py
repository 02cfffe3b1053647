"""Reject foreign requests, identify visitors and add security headers to all responses."""

from __future__ import annotations

import hmac
import secrets
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from graphviz_dash.app.hosting.access import allows_origin, get_access, parse_host_name
from graphviz_dash.app.hosting.policy import HEADERS, build_content_policy
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.ui.state.presence import OPEN_PAGES, VISITOR_HEADER

_TOKEN: Final = "token"
_MAX_NAME_CHARS: Final = 80
_MAX_ESCAPES: Final = 64
"""Backslashes in the cookies of a request; only tokens with unusual characters have any."""
_HOST_CONFIG: Final = "/_stcore/host-config"
"""Requested by Streamlit's front end before it opens its websocket."""
_VISITOR_KEY: Final = secrets.token_bytes(32)
"""Signs visitor cookies until the server ends, as uploads do."""
_SAFE_SITES: Final = ("same-origin", "none")
_REOPEN: Final = (
    "<!doctype html><title>graphviz-dash</title><p>This dashboard requires a token. Open the "
    "address with <code>?token=</code> that <code>graphviz-dash serve</code> printed.<p>If "
    'you have opened it in this browser before, <a href="">follow this link</a>.'
)
"""Links from another site send no cookie; a link on this page does."""


class Guard:
    """Middleware that admits or rejects requests and websockets."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, or reject it with 403 and the reason."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        send = _add_security_headers(send)
        scope = _drop_escaped_cookies(scope)
        headers = Headers(scope=scope)
        cookies = cookie_parser(headers.get("cookie", ""))
        refusal = _check_source(scope, headers) or _check_token(scope, headers, cookies)
        if refusal is not None:
            await _refuse(refusal, scope, receive, send)
            return
        name = _format_cookie_name("visitor", scope)
        visitor = _parse_visitor(cookies.get(name, ""))
        if visitor is None and _may_set_visitor(scope, headers):
            visitor = secrets.token_hex(16)
            send = _set_cookie(send, name, f"{visitor}.{_sign_visitor(visitor)}")
        if scope["type"] == "http":
            await self._app(_add_visitor_header(scope, visitor), receive, send)
            return
        # Without cookies, each page counts as another visitor.
        visitor = visitor or secrets.token_hex(16)
        with OPEN_PAGES.register_page(visitor):
            await self._app(_add_visitor_header(scope, visitor), receive, send)


def _check_source(scope: Scope, headers: Headers) -> Response | None:
    """Reject requests for another host or from a page of another site."""
    hosts = headers.getlist("host")
    host = hosts[0] if len(hosts) == 1 else None
    if not get_access().allows_host(host):
        display_name = escape_control_characters(host or "")[:_MAX_NAME_CHARS]
        name = parse_host_name(host) or "NAME"
        return PlainTextResponse(
            f"Refused: this dashboard does not serve the host {display_name!r}. A page of another "
            "site may have redirected its name to this machine (DNS rebinding).\nIf the name "
            "is correct, for example that of a reverse proxy, allow it: graphviz-dash serve "
            f"--allow-host {escape_control_characters(name)[:_MAX_NAME_CHARS]}\n",
            403,
        )
    origins = headers.getlist("origin")
    if len(origins) > 1 or not allows_origin(origins[0] if origins else None, host):
        display_name = escape_control_characters(", ".join(origins))[:_MAX_NAME_CHARS]
        return PlainTextResponse(
            f"Refused: the request comes from a page of another site, {display_name!r}.\n", 403
        )
    # An image, script or frame embedded by another site; links that users follow are navigations.
    cross_site = headers.get("sec-fetch-site", "none") not in _SAFE_SITES
    if cross_site and headers.get("sec-fetch-mode") not in ("navigate", None):
        return PlainTextResponse("Refused: a page of another site requests a resource.\n", 403)
    if cross_site and headers.get("sec-fetch-dest") not in ("document", None):
        return PlainTextResponse("Refused: a page of another site embeds this page.\n", 403)
    return None


def _check_token(scope: Scope, headers: Headers, cookies: dict[str, str]) -> Response | None:
    """Return a rejection if the required token is missing.

    A token in the address becomes a cookie, and a redirect removes it from the address.
    """
    token = get_access().token
    if token is None:
        return None
    name = _format_cookie_name(_TOKEN, scope)
    query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    rows = [value for key, value in query if key == _TOKEN]
    if scope["type"] == "http" and rows and _compare_tokens(rows[-1], token):
        remaining_query = urlencode([(key, value) for key, value in query if key != _TOKEN])
        # One slash only: two would address another host.
        path = "/" + quote(scope["path"].lstrip("/\\"))
        response = RedirectResponse(f"{path}?{remaining_query}" if remaining_query else path, 303)
        response.set_cookie(name, token, httponly=True, samesite="strict", path="/")
        return response
    if _compare_tokens(cookies.get(name, ""), token):
        return None
    if "text/html" in headers.get("accept", ""):
        return HTMLResponse(_REOPEN, 403)
    return PlainTextResponse("Refused: this dashboard requires a token.\n", 403)


def _compare_tokens(candidate_token: str, token: str) -> bool:
    return hmac.compare_digest(candidate_token.encode("utf-8", "replace"), token.encode())


def _may_set_visitor(scope: Scope, headers: Headers) -> bool:
    """Test if the response may set the visitor cookie: not for links from another site, which
    arrive without the existing cookie."""
    if scope["type"] != "http":
        return False
    from_here = headers.get("sec-fetch-site", "none") in _SAFE_SITES
    is_document = "text/html" in headers.get("accept", "")
    return from_here and (is_document or scope["path"] == _HOST_CONFIG)


def _sign_visitor(visitor: str) -> str:
    return hmac.digest(_VISITOR_KEY, visitor.encode("utf-8", "replace"), "sha256").hex()


def _parse_visitor(cookie: str) -> str | None:
    """Return the visitor id of a cookie that this server set; None for others, so that nobody can
    invent visitors."""
    visitor, _, signature = cookie.partition(".")
    return visitor if _compare_tokens(signature, _sign_visitor(visitor)) else None


def _add_visitor_header(scope: Scope, visitor: str | None) -> Scope:
    header = VISITOR_HEADER.encode()
    headers = [item for item in scope["headers"] if item[0].lower() != header]
    if visitor is not None:
        headers.append((header, visitor.encode("latin-1", "replace")))
    return dict(scope, headers=headers)


def _drop_escaped_cookies(scope: Scope) -> Scope:
    """Return a request without cookies that have many backslashes.

    Python's parser needs quadratic time for them: 60 kB stopped the server for a minute.
    """
    headers = [
        (name, _drop_escaped(value) if name.lower() == b"cookie" else value)
        for name, value in scope["headers"]
    ]
    return dict(scope, headers=headers)


def _drop_escaped(cookies: bytes) -> bytes:
    if cookies.count(b"\\") <= _MAX_ESCAPES:
        return cookies
    return b";".join(cookie for cookie in cookies.split(b";") if b"\\" not in cookie)


def _format_cookie_name(purpose: str, scope: Scope) -> str:
    """Return a name with the port, because cookies ignore ports."""
    server = scope.get("server") or ("", 0)
    return f"graphviz-dash-{purpose}-{server[1]}"


def _set_cookie(send: Send, name: str, value: str) -> Send:
    async def send_with_cookie(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=message["headers"])
            headers.append("set-cookie", f"{name}={value}; HttpOnly; Path=/; SameSite=strict")
        await send(message)

    return send_with_cookie


def _add_security_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            headers = MutableHeaders(raw=list(message.get("headers", ())))
            for name, value in HEADERS.items():
                headers[name] = value
            headers.setdefault("content-security-policy", build_content_policy())
            message = {**message, "headers": headers.raw}
        await send(message)

    return send_with_headers


async def _refuse(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await response(scope, receive, send)
        return
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008})
        return

    async def send_denial(message: Message) -> None:
        await send({**message, "type": f"websocket.{message['type']}"})

    await response(dict(scope, type="http", method="GET"), receive, send_denial)
