"""Pictures of pages compared with gold ones, whatever a machine's fonts look like.

Text is drawn as bars, the picture is reduced to a quarter, and a pixel agrees when it lies between
those around its place in the other picture: things may move by 4 pixels of the screen. What must
stay is where something is, how large, and in which colour. More than :data:`MOST_OFF` of the pixels
off is a difference.

After a change that is meant, look at the pages (``make pictures``), and write all gold pictures
anew with ``UPDATE_GOLD=1 .venv/bin/python -m pytest tests/ui/test_looks.py``.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

GOLD: Final = Path(__file__).parent / "gold"
REDUCED: Final = 4
NEAR: Final = 20
"""Of 255, in any channel: less than between any two colours of the palette."""
MOST_OFF: Final = 0.001
"""Share of the pixels: a bar of 60 by 18 pixels of the screen is as much."""

BARS_FOR_TEXT: Final = """
for (const kind of [CanvasRenderingContext2D, OffscreenCanvasRenderingContext2D]) {
  kind.prototype.strokeText = () => {}
  kind.prototype.fillText = function (text, x, y, most) {
    const wide = Math.min(this.measureText(text).width, most ?? Infinity)
    const tall = parseFloat(this.font.match(/([\\d.]+)px/)[1]) / 2
    const left = {right: wide, end: wide, center: wide / 2}[this.textAlign] ?? 0
    const above = {top: -tall / 2, middle: tall / 2}[this.textBaseline] ?? tall
    this.fillRect(x - left, y - above, wide, tall)
  }
}"""
"""Before a page is loaded: what canvases write."""
BARS_FOR_WORDS: Final = """() => {
  const rule = `* { -webkit-text-fill-color: transparent !important; }
    text-bar {
      background: linear-gradient(currentColor, currentColor) center / 100% 0.5em no-repeat }
    .places { visibility: hidden; }
    svg text { fill: transparent !important; stroke: none !important; }`
  const dress = root => {
    const words = []
    const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT)
    while (walk.nextNode()) {
      const one = walk.currentNode
      if (one.shadowRoot) dress(one.shadowRoot)
      const parent = one.parentElement
      if (one.nodeType !== Node.TEXT_NODE || !one.data.trim()) continue
      if (!parent?.closest("svg, style, script, noscript")) words.push(one)
    }
    for (const one of words) {
      const bar = document.createElement("text-bar")
      one.replaceWith(bar)
      bar.append(one)
    }
    const style = Object.assign(document.createElement("style"), {textContent: rule})
    style.dataset.bars = ""
    root.append(style)
  }
  dress(document.body)
}"""
"""The script replaces text of the page and its components by bars; names of folders differ between
machines.
"""
WORDS_FOR_BARS: Final = """() => {
  const undress = root => {
    for (const bar of root.querySelectorAll("text-bar")) bar.replaceWith(...bar.childNodes)
    for (const rule of root.querySelectorAll("style[data-bars]")) rule.remove()
    for (const one of root.querySelectorAll("*")) if (one.shadowRoot) undress(one.shadowRoot)
  }
  undress(document.body)
}"""
"""Undoes :data:`BARS_FOR_WORDS`, however often it was done."""

Pixels = npt.NDArray[np.int16]


def reduced(png: bytes) -> Image.Image:
    """A screenshot at a quarter of its size."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    return picture.reduce(REDUCED)


def off(found: Image.Image, gold: Image.Image) -> float:
    """The share of the pixels that do not agree with the other picture, either way; 1 when the
    sizes differ."""
    if found.size != gold.size:
        return 1.0
    one, other = (np.asarray(picture, dtype=np.int16) for picture in (found, gold))
    return float((_strange(one, other) | _strange(other, one)).mean())


def agrees(png: bytes, name: str) -> bool:
    """Return True if a screenshot matches the gold picture ``name``; saves nothing."""
    gold = GOLD / f"{name}.png"
    return gold.exists() and off(reduced(png), Image.open(gold).convert("RGB")) <= MOST_OFF


def assert_picture(png: bytes, name: str) -> None:
    """Fail unless a screenshot matches the gold picture ``name``; save it next to that one."""
    found = reduced(png)
    gold = GOLD / f"{name}.png"
    beside = GOLD / f"{name}.found.png"
    if os.environ.get("UPDATE_GOLD"):
        GOLD.mkdir(exist_ok=True)
        found.save(gold, optimize=True)
        beside.unlink(missing_ok=True)
        return
    share = off(found, Image.open(gold).convert("RGB")) if gold.exists() else 1.0
    if share <= MOST_OFF:
        beside.unlink(missing_ok=True)
        return
    found.save(beside)
    pytest.fail(
        f"{share:.1%} of {name} differs, more than {MOST_OFF:.1%}; saved as {beside}; if it is "
        "meant: UPDATE_GOLD=1",
        pytrace=False,
    )


def _strange(picture: Pixels, other: Pixels) -> npt.NDArray[np.bool_]:
    """Return pixels with a channel outside the range of the nine pixels around their position in
    the other picture: a moved edge mixes both sides.
    """
    padded = np.pad(other, ((1, 1), (1, 1), (0, 0)), mode="edge")
    height, width = picture.shape[:2]
    around = [
        padded[down : down + height, right : right + width]
        for down in range(3)
        for right in range(3)
    ]
    low, high = np.minimum.reduce(around) - NEAR, np.maximum.reduce(around) + NEAR
    return ((picture < low) | (picture > high)).any(axis=2)
