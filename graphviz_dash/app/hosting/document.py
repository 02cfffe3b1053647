"""Complete Streamlit's HTML document with our style sheet and scripts.

A style sheet added by the page script arrives after the first elements are drawn, which then all
move. The same happens to text whose part of the front end is loaded on first use.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

import streamlit
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from graphviz_dash.app.hosting.cards_client import FIRST_CARDS
from graphviz_dash.app.hosting.policy import build_content_policy
from graphviz_dash.app.hosting.preload import preload
from graphviz_dash.app.overview.early_cards import build_early_cards
from graphviz_dash.documentation import ADDRESS
from graphviz_dash.ui.page.navigation import NAMES
from graphviz_dash.ui.page.registry import PAGES
from graphviz_dash.ui.state.presence import VISITOR_HEADER

STYLE: Final = Path(__file__).parents[2] / "ui" / "assets" / "style.css"
_SCRIPTS: Final = (STYLE.with_name("palette.js"), STYLE.with_name("folds.js"))
"""Scripts of the palette with the Share button, and of folds that stay open."""
SCRIPTS: Final = Path(streamlit.__file__).parent / "static" / "static" / "js"
OVERVIEW_ELEMENTS: Final = ("Html", "DynamicIcon", "StreamlitMarkdown")
PAGE_ELEMENTS: Final = (
    *OVERVIEW_ELEMENTS,
    "Selectbox",
    "ButtonGroup",
    "BidiComponent",
    "DownloadButton",
)
"""Parts of Streamlit's front end on the first screen of the start page and of other pages.

Parts that another Streamlit version lacks or renames are loaded on demand. So are the start page's
input fields, because its cards do not need them.
"""
IDLE_ELEMENTS: Final = ("ButtonGroup", "BidiComponent", "DataFrame", "DownloadButton")
"""Parts at the top of other pages, which Streamlit would load on navigation (0.6 s for a graph).

They are loaded when the first page is complete and the browser is idle.
"""
IMPORT: Final = re.compile(r"""(?:from|import)\s*["'`]\./([\w.-]+\.js)["'`]""")
_BEGIN_BYTES: Final = 1 << 15
"""Bytes read of a script (up to half a megabyte); bundlers put imports at the beginning."""
_UNUSED_FONT: Final = re.compile(rb"<link[^>]*/SourceSansVF-Upright[^>]*>")
"""Streamlit's own font, requested before all scripts although our theme does not use it."""
_DROPPED_HEADERS: Final = (b"accept-encoding", b"if-none-match", b"if-modified-since")
"""Headers dropped from the request: a compressed or unchanged document cannot be completed."""
_FIRST_PAGE_SCRIPT: Final = """<script type="module">
const root = document.documentElement
root.classList.add("fresh")
const ready = '[data-testid="stApp"][data-test-script-state="notRunning"]'
const done = () => { watch.disconnect(); clearInterval(clock); root.classList.remove("fresh") }
let calm = 0
const clock = setInterval(() => { if (++calm === 10) done() }, 600)
const watch = new MutationObserver(() => {
  calm = 0
  if (document.querySelector(ready) && !document.querySelector('[data-testid="stSkeleton"]')) done()
})
watch.observe(document.body, {subtree: true, childList: true, attributes: true,
  attributeFilter: ["data-test-script-state"]})
</script>"""
"""Hides elements around a placeholder until the first page is complete.

Each element is drawn once, in its final position. A remaining placeholder appears after 6 s without
changes, not counting time in which a slow browser runs a script.
"""
_IDLE_IMPORT_SCRIPT: Final = """<script type="module">
const idle = window.requestIdleCallback ?? ((act) => setTimeout(act, 100))
const names = %s
const next = () => {
  const name = names.shift()
  if (name) import(name).catch(() => {}).then(() => idle(next))
}
let pause
const calm = new MutationObserver(() => {
  clearTimeout(pause)
  if (!document.querySelector('[data-testid="stElementContainer"]')) return
  pause = setTimeout(() => { calm.disconnect(); idle(next) }, 400)
})
calm.observe(document.body, {subtree: true, childList: true})
</script>"""
_PLOTLY_SCRIPT: Final = """<script type="module">
const begun = new MutationObserver(() => {
  if (!document.querySelector('[data-testid="stElementContainer"]')) return
  begun.disconnect()
  for (const name of %s) import(name).catch(() => {})
})
begun.observe(document.documentElement, {subtree: true, childList: true})
</script>"""
"""Loads Plotly once the first elements of a page exist.

Plotly has five megabytes and blocks the browser for 0.3 s. Loading it earlier would delay the page,
loading it with the chart would wait for the server.
"""
_HISTORY_SCRIPT: Final = """<script>
{
  let passing = false
  let gone = null
  const connected = '[data-testid="stApp"][data-test-connection-state="CONNECTED"]'
  addEventListener("popstate", (event) => { passing = event.isTrusted }, true)
  for (const act of ["pointerdown", "keydown", "click", "input", "change", "wheel", "drop"])
    addEventListener(act, () => { passing = false; gone = null }, true)
  for (const name of ["pushState", "replaceState"]) {
    const change = history[name].bind(history)
    history[name] = (state, title, url) => {
      const elsewhere = gone !== null && new URL(url, location).pathname !== gone
      if (!passing && !elsewhere) change(state, title, url)
    }
  }
  addEventListener("click", (event) => {
    const link = event.target.closest?.("a.to-page")
    const held = event.ctrlKey || event.metaKey || event.shiftKey || event.altKey
    if (!link || held || event.defaultPrevented || !document.querySelector(connected)) return
    event.preventDefault()
    if (link.href !== location.href) history.pushState({}, "", link.href)
    gone = location.pathname
    dispatchEvent(new PopStateEvent("popstate"))
  })
}
</script>"""
"""Ignores address changes by Streamlit between Back or Forward and the next user action.

Streamlit's front end applies address changes of a page script to the page that the browser shows by
then. After two quick Backs, the script of the skipped page would change the address of the other
page.

Links of class ``to-page`` are followed like Forward, to a new address: the front end reruns the
page and keeps the document. Without this script they load a new document.
"""
_SCROLL_SCRIPT: Final = """<script>
{
  const places = new Map()
  const main = () => document.querySelector('[data-testid="stMain"]')
  const ready = '[data-testid="stApp"][data-test-script-state="notRunning"]'
  let path = location.pathname
  let wanted = null
  const settle = (since) => {
    const shown = main()
    if (wanted === null || !shown) return
    if (shown.scrollHeight - shown.clientHeight >= wanted) shown.scrollTop = wanted
    const isThere = Math.abs(shown.scrollTop - wanted) < 2 && document.querySelector(ready)
    if (performance.now() - since > (isThere ? 600 : 10000)) wanted = null
    else setTimeout(() => settle(since), 50)
  }
  const note = () => {
    const shown = main()
    if (wanted === null && shown && location.pathname === path)
      places.set(location.href, shown.scrollTop)
  }
  addEventListener("scroll", note, true)
  addEventListener("popstate", (event) => {
    if (location.pathname === path) return
    path = location.pathname
    wanted = event.isTrusted ? places.get(location.href) || null : null
    if (wanted === null) places.delete(location.href)
    else settle(performance.now())
  }, true)
  for (const act of ["pointerdown", "keydown", "wheel", "touchstart"])
    addEventListener(act, () => { wanted = null; note() }, {capture: true, passive: true})
}
</script>"""
"""Restores the scroll position on Back and Forward.

Browsers do this only if the document itself scrolls. Streamlit scrolls an element and starts each
page at its top.
"""
_BACKEND_SCRIPT: Final = """<script>
window.__streamlit = {BACKEND_BASE_URL: `${location.origin}/`}
</script>"""
"""Tells Streamlit's front end where its server is.

It would also probe a server below the path of the page, which answers 404.
"""
_COLOUR_SCHEME_SCRIPT: Final = """<script>
{
  const ready = '[data-testid="stApp"][data-test-script-state="notRunning"]'
  const r = {key: "r", code: "KeyR", keyCode: 82, bubbles: true}
  const rerun = () => {
    if (!document.querySelector(ready)) setTimeout(rerun, 100)
    else for (const act of ["keydown", "keyup"])
      document.body.dispatchEvent(new KeyboardEvent(act, r))
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTimeout(rerun, 50))
}
</script>"""
"""Reruns the page with Streamlit's R key when the system switches between light and dark.

Streamlit's front end only changes its colours; charts and colours from the server would stay as
they were.
"""
_FONTS: Final = ("inter", "jetbrains-mono")


class DocumentMiddleware:
    """Middleware that completes HTML documents and passes everything else through."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; send a document as one body with its actual length."""
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        request_headers = Headers(scope=scope)
        is_documentation = scope["path"] == ADDRESS or scope["path"].startswith(f"{ADDRESS}/")
        if is_documentation or "text/html" not in request_headers.get("accept", ""):
            await self._app(scope, receive, send)
            return
        page = scope["path"].strip("/")
        preload(page or "overview")
        if page in NAMES:
            FIRST_CARDS.lower_priority()
        early_cards = ""
        if not page and not scope["query_string"]:
            visitor = request_headers.get(VISITOR_HEADER, "")
            early_cards = await run_in_threadpool(build_early_cards, visitor)
        plain = [item for item in scope["headers"] if item[0] not in _DROPPED_HEADERS]
        start_messages: list[Message] = []
        body = bytearray()

        async def complete(message: Message) -> None:
            if message["type"] == "http.response.start":
                kind = Headers(raw=message["headers"]).get("content-type", "")
                if kind.startswith("text/html"):
                    start_messages.append(message)
                    return
            if not start_messages:
                await send(message)
                return
            body.extend(message.get("body", b""))
            if message.get("more_body", False):
                return
            start = start_messages.pop()
            document = complete_document(bytes(body), page, early_cards)
            headers = MutableHeaders(raw=start["headers"])
            headers["content-length"] = str(len(document))
            headers["content-security-policy"] = build_content_policy(document)
            # They describe Streamlit's file, not our document.
            del headers["etag"]
            del headers["last-modified"]
            await send(start)
            await send({"type": "http.response.body", "body": document})

        await self._app(dict(scope, headers=plain), receive, complete)


def complete_document(document: bytes, page: str, early_cards: str = "") -> bytes:
    """Return the document of ``page`` (empty: the start page) with style sheet and preload links.

    The style sheet is in the body, where it overrides Streamlit's styles in the head. The markup of
    ``early_cards`` follows it.
    """
    style = (
        b"<style>"
        + STYLE.read_bytes()
        + b"</style>"
        + (_FIRST_PAGE_SCRIPT + early_cards + _build_idle_imports()).encode()
    )
    head = (
        _BACKEND_SCRIPT
        + _HISTORY_SCRIPT
        + _SCROLL_SCRIPT
        + _COLOUR_SCHEME_SCRIPT
        + "".join(f"<script>{script.read_text(encoding='utf-8')}</script>" for script in _SCRIPTS)
        + build_preload_links(PAGE_ELEMENTS if page else OVERVIEW_ELEMENTS)
    )
    if page in PAGES and PAGES[page].starts_with_chart:
        head += _PLOTLY_SCRIPT % _format_script_urls(("PlotlyChart",))
    document = _UNUSED_FONT.sub(b"", document, 1)
    document = document.replace(b"</head>", head.encode() + b"</head>", 1)
    return document.replace(b"<body>", b"<body>" + style, 1)


@cache
def build_preload_links(elements: tuple[str, ...]) -> str:
    """Return preload links for our fonts and for the first elements of a page."""
    fonts = (
        f'<link rel="preload" as="font" type="font/woff2" crossorigin '
        f'href="/assets/fonts/{font}.woff2">'
        for font in _FONTS
    )
    parts = list_element_scripts(elements)
    scripts = (
        f'<link rel="modulepreload" crossorigin href="./static/js/{name}">'
        for name in list_required_scripts(SCRIPTS, parts)
    )
    # Also run them early: otherwise elements are first drawn as placeholders of another height.
    imports = "".join(f'import "./static/js/{name}";' for name in parts)
    return "".join((*fonts, *scripts, f'<script type="module">{imports}</script>'))


@cache
def _build_idle_imports() -> str:
    return _IDLE_IMPORT_SCRIPT % _format_script_urls(IDLE_ELEMENTS)


def _format_script_urls(elements: tuple[str, ...]) -> str:
    return json.dumps([f"./static/js/{name}" for name in list_element_scripts(elements)])


def list_element_scripts(elements: Iterable[str]) -> list[str]:
    """List the scripts of ``elements`` that this version of Streamlit has."""
    return [script.name for part in elements for script in SCRIPTS.glob(f"{part}.*.js")]


def list_required_scripts(folder: Path, parts: Iterable[str]) -> list[str]:
    """List ``parts``, which are files of ``folder``, and their transitive imports."""
    pending = list(parts)
    scripts: set[str] = set()
    while pending:
        name = pending.pop()
        if name not in scripts and (folder / name).is_file():
            scripts.add(name)
            with (folder / name).open("rb") as file:
                begin = file.read(_BEGIN_BYTES).decode("utf-8", "ignore")
            pending += IMPORT.findall(begin)
    return sorted(scripts)
