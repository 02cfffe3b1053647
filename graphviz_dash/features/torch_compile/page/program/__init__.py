"""The compiled program as a tree of boxes that can be folded, searched and coloured."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final

import streamlit as st

from graphviz_dash.features.torch_compile.analysis.program_tree import Box, ProgramTree
from graphviz_dash.ui.components.component_data import ProgramData, as_data
from graphviz_dash.ui.components.scripts import one_script

__all__ = ["program_tree_view"]

_FOLDER: Final = Path(__file__).parent

_HTML: Final = """
<div class="program">
  <div class="head">
    <input type="search" placeholder="Search functions, lines, graphs"
      aria-label="Search the compiled program">
    <span class="count" role="status"></span>
  </div>
  <div class="list" tabindex="0" role="tree" aria-label="The compiled program">
    <div class="space"></div>
  </div>
</div>
"""


def program_tree_view(
    tree: ProgramTree, whole_ns: float | None, *, colour: str, selected: str | None, key: str
) -> str | None:
    """Show ``tree`` and return the id of the chosen box, initially ``selected``.

    Args:
        tree: the compiled program.
        whole_ns: step time that shares refer to; None if unknown.
        colour: ``time`` or ``cause``.
        selected: id of the box chosen by the page.
        key: key of the widget.
    """
    state = _component()(
        data=as_data(_data(tree, whole_ns, colour, selected)),
        key=key,
        on_selected_change=_nothing,
    )
    chosen = getattr(state, "selected", None)
    return chosen if isinstance(chosen, str) else selected


def _nothing() -> None:
    """Do nothing: the run of the page reads the choice."""


def _data(
    tree: ProgramTree, whole_ns: float | None, colour: str, selected: str | None
) -> ProgramData:
    boxes: list[Box] = []
    parents: list[int] = []
    waiting = [(box, -1) for box in reversed(tree.roots)]
    while waiting:
        box, parent = waiting.pop()
        index = len(boxes)
        boxes.append(box)
        parents.append(parent)
        waiting.extend((child, index) for child in reversed(box.children))
    return ProgramData(
        ids=[box.id for box in boxes],
        parents=parents,
        kinds=[box.kind.value for box in boxes],
        titles=[box.title for box in boxes],
        lines=["" if box.line is None else box.line.text for box in boxes],
        times=[None if box.total_ns is None else round(box.total_ns) for box in boxes],
        causes=[len(box.causes) for box in boxes],
        whole=whole_ns or 0.0,
        colour=colour,
        selected=selected,
    )


@cache
def _component() -> Any:
    return st.components.v2.component(
        "graphviz_dash_program",
        html=_HTML,
        css=(_FOLDER / "program.css").read_text(encoding="utf-8"),
        js=one_script(_FOLDER / "program.js"),
    )
