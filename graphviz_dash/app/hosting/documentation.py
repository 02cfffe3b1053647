"""The documentation under /docs: the built site, or else the Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Final

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from graphviz_dash.app.hosting.policy import build_content_policy
from graphviz_dash.documentation import ADDRESS, SITE_FOLDER, SOURCES, build_anchor

_FIRST_PAGE: Final = "index.html"
_FOREVER: Final = "public, immutable, max-age=31536000"
_HASHED_FILE: Final = re.compile(r"assets/.*\.[0-9a-f]{8}\.min\.(js|css)")
"""Files with a hash of their content in their names."""

_COMMENT: Final = re.compile(r"<!--.*?-->", re.S)
_MEDIA_TYPES: Final = {".webp": "image/webp"}
"""Types that Python does not know before version 3.13."""
_PICTURES: Final = (".svg", ".webp", ".json")
_STYLE: Final = (
    ":root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}"
    "body{max-width:50rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse}td,th{border:1px solid #8888;padding:.2rem .5rem}"
    "pre{overflow-x:auto;padding:.5rem;border:1px solid #8888}img{max-width:100%}"
    ".note{padding:.5rem 1rem;border-left:4px solid #2a9d8f}"
)
_UNBUILT: Final = (
    "The documentation site is not built: this is the Markdown text, without search. Build the "
    "site with <code>make site</code> in the checkout, then reload this page."
)
_ABSENT: Final = (
    "This installation has no documentation. Build it with <code>make site</code> in a checkout of "
    "graphviz-dash."
)


def list_routes() -> list[BaseRoute]:
    """List the routes under /docs."""
    return [
        Route(ADDRESS, _redirect_to_first),
        Route(f"{ADDRESS}/{{path:path}}", serve_documentation),
    ]


async def _redirect_to_first(_: Request) -> RedirectResponse:
    return RedirectResponse(f"{ADDRESS}/{_FIRST_PAGE}")


def serve_documentation(request: Request) -> Response:
    """Serve a file of the built site, or the page's Markdown without a site; 404 otherwise."""
    path = request.path_params["path"] or _FIRST_PAGE
    if (SITE_FOLDER / _FIRST_PAGE).is_file():
        return _serve_built(path)
    return _serve_unbuilt(path)


def _serve_built(path: str) -> Response:
    file = _find_inside(SITE_FOLDER, path)
    status = 200
    if file is None:
        file, status = SITE_FOLDER / "404.html", 404
    if file.suffix == ".html":
        content = file.read_bytes()
        return HTMLResponse(
            content,
            status,
            {"content-security-policy": build_content_policy(content), "cache-control": "no-cache"},
        )
    cache_control = _FOREVER if _HASHED_FILE.fullmatch(path) else "no-cache"
    return _send_file(file, status, {"cache-control": cache_control})


def _serve_unbuilt(path: str) -> Response:
    picture = _find_inside(SOURCES, path)
    if picture is not None and picture.suffix in _PICTURES:
        return _send_file(picture)
    source = _find_inside(SOURCES, f"{path.removesuffix('.html')}.md")
    if source is None and path == _FIRST_PAGE:
        source = _find_inside(SOURCES.parent, "README.md") if SOURCES.is_dir() else None
    if source is not None:
        return _build_page(_UNBUILT, render_markdown(source.read_text(encoding="utf-8")), 200)
    return _build_page(_UNBUILT if SOURCES.is_dir() else _ABSENT, "", 404)


def _send_file(
    file: Path, status: int = 200, headers: Mapping[str, str] | None = None
) -> FileResponse:
    return FileResponse(file, status, headers, _MEDIA_TYPES.get(file.suffix))


def _find_inside(folder: Path, path: str) -> Path | None:
    """Return the file at ``path`` (POSIX) in ``folder``; None if absent or outside."""
    pure = PurePosixPath(path)
    if "\0" in path or "\\" in path or pure.is_absolute() or ".." in pure.parts:
        return None
    file = (folder / pure).resolve()
    return file if file.is_relative_to(folder.resolve()) and file.is_file() else None


def _build_page(note: str, body: str, status: int) -> HTMLResponse:
    document = (
        "<!doctype html><html lang=en><meta charset=utf-8><title>graphviz-dash</title>"
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<style>{_STYLE}</style><p class="note">{note}</p>{body}'
    )
    policy = build_content_policy(document.encode())
    return HTMLResponse(document, status, {"content-security-policy": policy})


def render_markdown(text: str) -> str:
    """Render Markdown with heading anchors; HTML in it is shown as text."""
    from markdown_it import MarkdownIt

    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = reader.parse(_COMMENT.sub("", text))
    for opening, content in pairwise(tokens):
        if opening.type == "heading_open":
            opening.attrSet("id", escape(build_anchor(content.content)))
        for child in content.children or ():
            target = child.attrGet("href")
            if isinstance(target, str) and re.match(r"[^:#]+\.md(#|$)", target):
                child.attrSet("href", re.sub(r"\.md(#|$)", r".html\1", target, count=1))
    return str(reader.renderer.render(tokens, reader.options, {}))
