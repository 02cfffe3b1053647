"""The compiled program as a tree of boxes that can be folded, searched and coloured."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from graphviz_dash.features.torch_compile.analysis.program_tree import ProgramTree, TreeBox
from graphviz_dash.ui.components.component_data import ProgramData, to_plain_data
from graphviz_dash.ui.components.creation import create_component, ignore_change

__all__ = ["render_program_tree"]

_SCRIPT: Final = Path(__file__).with_name("program.js")

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


def render_program_tree(
    tree: ProgramTree, step_ns: float | None, *, colour: str, selected: str | None, key: str
) -> str | None:
    """Show ``tree`` and return the id of the chosen box, initially ``selected``.

    Args:
        tree: the compiled program.
        step_ns: step time that shares refer to; None if unknown.
        colour: ``time`` or ``cause``.
        selected: id of the box chosen by the page.
        key: key of the widget.
    """
    state = create_component(_SCRIPT, _HTML)(
        data=to_plain_data(_build_data(tree, step_ns, colour, selected)),
        key=key,
        on_selected_change=ignore_change,
    )
    node = getattr(state, "selected", None)
    return node if isinstance(node, str) else selected


def _build_data(
    tree: ProgramTree, step_ns: float | None, colour: str, selected: str | None
) -> ProgramData:
    boxes: list[TreeBox] = []
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
        step_ns=step_ns or 0.0,
        colour=colour,
        selected=selected,
    )
