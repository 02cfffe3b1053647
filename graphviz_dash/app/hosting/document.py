"""The document that every page starts as: Streamlit's own, with our style sheet already in it.

Put on the page by the script, a style sheet comes after the first elements are drawn, which then
all move. So does text whose part of Streamlit's front end is asked for when it is first needed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

import streamlit
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from graphviz_dash.app.hosting.cards_client import FIRST_CARDS
from graphviz_dash.app.hosting.policy import content_policy
from graphviz_dash.app.hosting.preload import preload
from graphviz_dash.documentation import ADDRESS
from graphviz_dash.ui.page.navigation import NAMES
from graphviz_dash.ui.page.registry import PAGES

STYLE: Final = Path(__file__).parents[2] / "ui" / "assets" / "style.css"
SCRIPTS: Final = Path(streamlit.__file__).parent / "static" / "static" / "js"
OVERVIEW: Final = ("Html", "DynamicIcon", "StreamlitMarkdown")
OTHERS: Final = (*OVERVIEW, "Selectbox", "ButtonGroup", "BidiComponent", "DownloadButton")
"""Parts of Streamlit's front end that the first screen of the start page and of the other pages is
made of; one that a later version has not, or calls otherwise, is asked for when it is needed, as
the fields of the start page are: its cards do not wait for them."""
LATER: Final = ("ButtonGroup", "BidiComponent", "DataFrame", "DownloadButton")
"""Parts that other pages begin with and Streamlit loads when they are gone to, 0.6 s for a graph:
loaded when the first page stands and the browser has nothing to do."""
IMPORT: Final = re.compile(r"""(?:from|import)\s*["'`]\./([\w.-]+\.js)["'`]""")
_BEGIN_BYTES: Final = 1 << 15
"""What is read of a script, half a megabyte with some: bundlers put imports at the beginning."""
_UNUSED: Final = re.compile(rb"<link[^>]*/SourceSansVF-Upright[^>]*>")
"""Streamlit's own font, asked for before all scripts though our theme shows no text in it."""
_NOT_ASKED: Final = (b"accept-encoding", b"if-none-match", b"if-modified-since")
"""What is compressed, or that a document is unchanged, could not be completed."""
_FRESH: Final = """<script type="module">
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
"""Until a new document's first page is complete, the style sheet hides what stands around a
placeholder: it is drawn once, in its place. A placeholder that stays is shown after 6 s in which
nothing came, not counting those in which a slow browser was busy with a script."""
_LATER: Final = """<script type="module">
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
_CHARTS: Final = """<script type="module">
const begun = new MutationObserver(() => {
  if (!document.querySelector('[data-testid="stElementContainer"]')) return
  begun.disconnect()
  for (const name of %s) import(name).catch(() => {})
})
begun.observe(document.documentElement, {subtree: true, childList: true})
</script>"""
"""Loads Plotly, five megabytes that a browser is busy with for 0.3 s, when the first elements of a
page are there: before them it would put off the page, and with the chart it would wait for the
server first."""
_HISTORY: Final = """<script>
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
"""From Back or Forward to the visitor's next act the address is the browser's alone. Streamlit's
front end joins what the script of a page says of its address to the page that the browser is at by
then: where Back is pressed twice quickly, the script of the page that was passed has begun, and
its path or its query would get into the address of the other page.

A link of ours is followed as Forward is, to an address that is new: the front end has the server
run that page and keeps the document. Without this script a link loads the page it leads to."""
_PLACES: Final = """<script>
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
"""Back and Forward to another page lead to where it was left. A browser sees to that where the
document itself is scrolled: Streamlit scrolls a part of it, and begins each page at its top."""
_SCHEME: Final = """<script>
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
"""Where the system changes between light and dark, Streamlit's front end takes other colours and
runs no script: charts and what the server coloured would stay as they were. Its key R runs the page
again, once it rests."""
_FONTS: Final = ("inter", "jetbrains-mono")


class DocumentMiddleware:
    """Middleware that completes documents; everything else passes as it is."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request; a document as one body, with its true length."""
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        asked = Headers(scope=scope)
        of_docs = scope["path"] == ADDRESS or scope["path"].startswith(f"{ADDRESS}/")
        if of_docs or "text/html" not in asked.get("accept", ""):
            await self._app(scope, receive, send)
            return
        page = scope["path"].strip("/")
        preload(page or "overview")
        if page in NAMES:
            FIRST_CARDS.give_way()
        plain = [item for item in scope["headers"] if item[0] not in _NOT_ASKED]
        held: list[Message] = []
        body = bytearray()

        async def complete(message: Message) -> None:
            if message["type"] == "http.response.start":
                kind = Headers(raw=message["headers"]).get("content-type", "")
                if kind.startswith("text/html"):
                    held.append(message)
                    return
            if not held:
                await send(message)
                return
            body.extend(message.get("body", b""))
            if message.get("more_body", False):
                return
            start = held.pop()
            document = completed(bytes(body), page)
            headers = MutableHeaders(raw=start["headers"])
            headers["content-length"] = str(len(document))
            headers["content-security-policy"] = content_policy(document)
            # It names Streamlit's file, not what is sent.
            del headers["etag"]
            del headers["last-modified"]
            await send(start)
            await send({"type": "http.response.body", "body": document})

        await self._app(dict(scope, headers=plain), receive, complete)


def completed(document: bytes, page: str) -> bytes:
    """The document of ``page`` (empty: the start page) with our style sheet in its body, where it
    wins over Streamlit's styles in the head, and with the page's first requests named in its
    head."""
    style = b"<style>" + STYLE.read_bytes() + b"</style>" + (_FRESH + _later()).encode()
    head = _HISTORY + _PLACES + _SCHEME + first_requests(OTHERS if page else OVERVIEW)
    if page in PAGES and PAGES[page].starts_with_chart:
        head += _CHARTS % _addresses(("PlotlyChart",))
    document = _UNUSED.sub(b"", document, 1)
    document = document.replace(b"</head>", head.encode() + b"</head>", 1)
    return document.replace(b"<body>", b"<body>" + style, 1)


@cache
def first_requests(elements: tuple[str, ...]) -> str:
    """Links that ask for our fonts and for what a page's first elements need, all at once."""
    fonts = (
        f'<link rel="preload" as="font" type="font/woff2" crossorigin '
        f'href="/assets/fonts/{font}.woff2">'
        for font in _FONTS
    )
    parts = files_of(elements)
    scripts = (
        f'<link rel="modulepreload" crossorigin href="./static/js/{name}">'
        for name in needed_scripts(SCRIPTS, parts)
    )
    # Run beforehand as well: an element whose part must still be run is drawn as a placeholder of
    # another height first.
    imports = "".join(f'import "./static/js/{name}";' for name in parts)
    return "".join((*fonts, *scripts, f'<script type="module">{imports}</script>'))


@cache
def _later() -> str:
    return _LATER % _addresses(LATER)


def _addresses(elements: tuple[str, ...]) -> str:
    return json.dumps([f"./static/js/{name}" for name in files_of(elements)])


def files_of(elements: Iterable[str]) -> list[str]:
    """The scripts of ``elements``, as far as this version of Streamlit has them."""
    return [script.name for part in elements for script in SCRIPTS.glob(f"{part}.*.js")]


def needed_scripts(folder: Path, parts: Iterable[str]) -> list[str]:
    """``parts``, which are files of ``folder``, and all that they import."""
    waiting = list(parts)
    needed: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in needed and (folder / name).is_file():
            needed.add(name)
            with (folder / name).open("rb") as file:
                begin = file.read(_BEGIN_BYTES).decode("utf-8", "ignore")
            waiting += IMPORT.findall(begin)
    return sorted(needed)
