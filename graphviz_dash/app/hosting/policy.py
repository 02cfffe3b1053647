"""Security headers for all responses of the server.

Scripts come only from this server; inline ones are limited by hash to ours and Streamlit's.
Streamlit's front end sets styles dynamically and creates component scripts from text (``blob:``);
its charts and grids compile expressions.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Final

import streamlit

HEADERS: Final = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    # Popups stay reachable, because a trace is sent to the window of the Perfetto UI.
    "cross-origin-opener-policy": "same-origin-allow-popups",
    "x-frame-options": "DENY",
}
_DOCUMENT: Final = Path(streamlit.__file__).parent / "static" / "index.html"
_INLINE: Final = re.compile(rb"<script\b(?![^>]*\bsrc=)[^>]*>(.*?)</script>", re.DOTALL)
_POLICY: Final = (
    "default-src 'self'; script-src 'self' blob: {hashes}; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
    "connect-src 'self' data: blob:; worker-src 'self' blob:; media-src 'self' blob:; "
    "frame-src 'none'; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)


def build_content_policy(document: bytes | None = None) -> str:
    """Return Content-Security-Policy for ``document``, or for Streamlit's document."""
    return _build_streamlit_policy() if document is None else _build_policy(document)


@cache
def _build_streamlit_policy() -> str:
    # Without the file, only the completed document's own scripts are allowed.
    return _build_policy(_DOCUMENT.read_bytes() if _DOCUMENT.is_file() else b"")


def _build_policy(document: bytes) -> str:
    digests = (hashlib.sha256(script).digest() for script in _INLINE.findall(document))
    hashes = (f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return _POLICY.format(hashes=" ".join(dict.fromkeys(hashes))).replace(" ;", ";")
